/** The double of E2B is right about the protocol if E2B's own SDK works with it. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { Sandbox, Volume } from "e2b"
import { CLOUD_IMAGE } from "../kit/cloud.ts"
import { E2B_KEY, type E2bDouble, startE2bDouble } from "../kit/e2b-double.ts"

let double: E2bDouble
beforeAll(async () => {
  double = await startE2bDouble()
})
afterAll(() => double.stop())

const connection = () => ({ apiKey: E2B_KEY, apiUrl: double.url, sandboxUrl: double.url })
const make = (metadata: Record<string, string>) =>
  Sandbox.create(CLOUD_IMAGE, {
    ...connection(),
    metadata,
    envs: { GREETING: "hello" },
    timeoutMs: 600_000,
    lifecycle: { onTimeout: "pause" },
  })

test("E2B's SDK creates, runs a command, pauses, connects, snapshots and kills a sandbox of the double", async () => {
  const sandbox = await make({ session: "life" })
  const result = await sandbox.commands.run("echo $GREETING; echo oops >&2; echo kept > file")
  expect(result).toMatchObject({ exitCode: 0, stdout: "hello\n", stderr: "oops\n" })
  expect(await sandbox.commands.run("exit 3").catch((error: unknown) => error)).toMatchObject({
    exitCode: 3,
  })
  expect(await sandbox.isRunning()).toBe(true)
  expect(await sandbox.pause()).toBe(true)
  expect(await sandbox.pause()).toBe(false)
  expect(await Sandbox.getInfo(sandbox.sandboxId, connection())).toMatchObject({
    state: "paused",
    metadata: { session: "life" },
  })
  await Sandbox.connect(sandbox.sandboxId, { ...connection(), timeoutMs: 60_000 })
  await sandbox.setTimeout(120_000)
  const { snapshotId } = await sandbox.createSnapshot()
  const copy = await Sandbox.create(snapshotId, connection())
  expect(await copy.commands.run("cat file")).toMatchObject({ stdout: "kept\n" })
  expect(await Sandbox.deleteSnapshot(snapshotId, connection())).toBe(true)
  expect(await Sandbox.deleteSnapshot(snapshotId, connection())).toBe(false)
  expect(await sandbox.kill()).toBe(true)
  expect(await sandbox.kill()).toBe(false)
  expect(Sandbox.getInfo(sandbox.sandboxId, connection())).rejects.toThrow("not found")
})

test("E2B's SDK lists the sandboxes of the double by metadata and state, page by page", async () => {
  const made = await Promise.all([1, 2, 3].map((n) => make({ session: "list & more", n: `${n}` })))
  await make({ session: "another" })
  await made[0]?.pause()
  const ids: string[] = []
  const pages = Sandbox.list({
    ...connection(),
    query: { metadata: { session: "list & more" }, state: ["running", "paused"] },
  })
  while (pages.hasNext) ids.push(...(await pages.nextItems()).map(({ sandboxId }) => sandboxId))
  expect(ids.toSorted()).toEqual(made.map(({ sandboxId }) => sandboxId).toSorted())
})

test("E2B's SDK lists named and unnamed snapshots of the double, page by page", async () => {
  const sandbox = await make({ session: "snapshots" })
  const made = [
    await sandbox.createSnapshot({ name: "first-one" }),
    await sandbox.createSnapshot(),
    await sandbox.createSnapshot({ name: "third-one" }),
  ]
  expect(made[0]?.snapshotId).toBe("team/first-one:default")
  const ids: string[] = []
  const pages = Sandbox.listSnapshots(connection())
  while (pages.hasNext) ids.push(...(await pages.nextItems()).map(({ snapshotId }) => snapshotId))
  expect(ids.toSorted()).toEqual(made.map(({ snapshotId }) => snapshotId).toSorted())
  for (const { snapshotId } of made)
    expect(await Sandbox.deleteSnapshot(snapshotId, connection())).toBe(true)
})

test("E2B's SDK creates, mounts and deletes a volume of the double", async () => {
  const volume = await Volume.create("workspace", connection())
  const sandbox = await Sandbox.create(CLOUD_IMAGE, {
    ...connection(),
    volumeMounts: { "/workspace": "workspace" },
  })
  expect(double.cloud.boxes.get(sandbox.sandboxId)?.volumes).toEqual({ "/workspace": "workspace" })
  expect(await Volume.destroy(volume.volumeId, connection())).toBe(true)
  expect(await Volume.destroy(volume.volumeId, connection())).toBe(false)
})

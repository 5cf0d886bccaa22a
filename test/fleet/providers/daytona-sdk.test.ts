/** The double of Daytona is right about the protocol if Daytona's own SDK works with it. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { Daytona } from "@daytonaio/sdk"
import { CLOUD_IMAGE } from "../kit/cloud.ts"
import { DAYTONA_KEY, type DaytonaDouble, startDaytonaDouble } from "../kit/daytona-double.ts"

let double: DaytonaDouble
let daytona: Daytona
beforeAll(async () => {
  double = await startDaytonaDouble()
  daytona = new Daytona({
    apiKey: DAYTONA_KEY,
    apiUrl: double.apiUrl,
    target: "eu",
    // Without it the SDK opens a second connection for events.
    useDeprecatedPolling: true,
  })
})
afterAll(() => double.stop())

const make = (name: string, labels: Record<string, string> = {}) =>
  daytona.create({ name, snapshot: CLOUD_IMAGE, labels, envVars: { GREETING: "hello" } })

test("Daytona's SDK creates, runs a command, pauses, starts, snapshots, stops and deletes a sandbox of the double", async () => {
  const sandbox = await make("life")
  expect(sandbox.state).toBe("started")
  expect(await make("life").catch(String)).toContain("already exists")
  const result = await sandbox.process.executeCommand("echo $GREETING; echo kept > file; exit 3")
  expect(result).toMatchObject({ exitCode: 3, result: "hello\n" })
  await sandbox.pause()
  expect((await daytona.get("life")).state).toBe("paused")
  await sandbox.start()
  expect(sandbox.state).toBe("started")
  await sandbox.refreshActivity()
  await sandbox.createSnapshot("kept-snapshot")
  expect(sandbox.state).toBe("started")
  const copy = await daytona.create({ snapshot: "kept-snapshot" })
  expect(await copy.process.executeCommand("cat file")).toMatchObject({ result: "kept\n" })
  await daytona.snapshot.delete("kept-snapshot")
  expect(await daytona.snapshot.get("kept-snapshot").catch(String)).toContain("not found")
  const { url, token } = await sandbox.getPreviewLink(9000)
  expect(url).toContain("9000-")
  expect(token).not.toBe("")
  const signed = await sandbox.getSignedPreviewUrl(9000, 86_400)
  expect(signed.url).toContain(`9000-${signed.token}`)
  expect(await sandbox.getSignedPreviewUrl(9000, 86_401).catch(String)).toContain("24 hours")
  await sandbox.stop()
  expect(sandbox.state).toBe("stopped")
  await sandbox.delete(60, true)
  expect(await daytona.get("life").catch(String)).toContain("not found")
})

test("Daytona's SDK is refused a sandbox of a snapshot with CPU or memory of its own", async () => {
  for (const resources of [{ cpu: 2 }, { memory: 4 }]) {
    const params = { name: "sized", snapshot: CLOUD_IMAGE, resources }
    expect(await daytona.create(params).catch(String)).toContain(
      "Cannot specify Sandbox resources when using a snapshot",
    )
  }
})

test("Daytona's SDK lists the sandboxes of the double by label, page by page", async () => {
  const made = [
    await make("l1", { a: "1" }),
    await make("l2", { a: "1" }),
    await make("l3", { a: "1" }),
  ]
  await make("l4", { a: "2" })
  const found = await Array.fromAsync(daytona.list({ labels: { a: "1" } }))
  expect(found.map(({ id }) => id)).toEqual(made.map(({ id }) => id))
})

test("Daytona's SDK lists the snapshots of the double, page by page", async () => {
  const sandbox = await make("snapshots")
  const names = ["one-snapshot", "two-snapshot", "three-snapshot"]
  for (const name of names) await sandbox.createSnapshot(name)
  const first = await daytona.snapshot.list(1, 2)
  const second = await daytona.snapshot.list(2, 2)
  expect(first).toMatchObject({ total: 3, page: 1, totalPages: 2 })
  expect([...first.items, ...second.items].map(({ name }) => name)).toEqual(names)
  for (const name of names) await daytona.snapshot.delete(name)
})

test("Daytona's SDK creates, mounts and deletes a volume of the double", async () => {
  const volume = await daytona.volume.get("workspace", true)
  const sandbox = await daytona.create({
    snapshot: CLOUD_IMAGE,
    volumes: [{ volumeId: volume.id, mountPath: "/data" }],
  })
  expect(double.cloud.boxes.get(sandbox.id)?.volumes).toEqual({ "/data": "workspace" })
  await daytona.volume.delete(volume)
  expect(await daytona.volume.get("workspace").catch(String)).toContain("not found")
})

/**
 * An isolated sandbox that ends becomes its snapshot by a rename. Each crash on the way leaves the work in the sandbox or in
 * the snapshot.
 */
import { afterAll, afterEach, beforeAll, expect, test } from "bun:test"
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  writeFileSync,
} from "node:fs"
import { join } from "node:path"
import { killTree } from "../../src/fleet/providers/local-processes.ts"
import { type IsolatedPlace, limit, openIsolated, specOf } from "./isolated-kit.ts"
import { until } from "./kit.ts"

let place: IsolatedPlace
beforeAll(async () => {
  place = await openIsolated()
})
afterEach(async () => {
  for await (const { ref } of place.provider.list({ deployment: "d" }))
    await place.provider.terminate(ref)
  for await (const { id } of place.provider.listSnapshots?.({ deployment: "d" }) ?? [])
    await place.provider.removeSnapshot(id)
})
afterAll(() => place.end())

const life = { idleMs: 1, lifeMs: 1 }
const diskOf = (ref: string) => join(place.root, "fleet/boxes", ref, "disk")
const layerOf = (id: string) => join(place.root, "fleet/isolated/layers", id)
const stateOf = async (ref: string) => {
  const seen = await place.provider.look(ref)
  return seen.is === "ok" ? seen.value.state : seen.is
}
const snapshots = async () =>
  (await Array.fromAsync(place.provider.listSnapshots?.({ deployment: "d" }) ?? [])).map(
    ({ id }) => id,
  )

/** A sandbox with a file, saved for its end. */
const savedForEnd = async (session: string) => {
  const ref = await place.start(session)
  expect(await place.shell(ref, "echo work > /workspace/file")).toEqual({ code: 0, text: "" })
  const saved = await place.provider.snapshot(ref, "disk", limit(), { ends: true })
  if (saved.is !== "ok") throw new Error(JSON.stringify(saved))
  expect(saved.value.isPaused).toBe(true)
  return { ref, id: saved.value.id }
}
const killProcesses = async (ref: string) => {
  const text = readFileSync(join(place.root, "fleet/boxes", ref, "box.json"), "utf8")
  killTree((JSON.parse(text) as { readonly process: { readonly pid: number } }).process.pid)
  await until(async () => (await stateOf(ref)) === "stopped", "the end of the processes")
}
/** What a sandbox of the snapshot has in its file. */
const restored = async (session: string, id: string) => {
  const image = { kind: "snapshot", id } as const
  const ref = await place.start(session, { generation: 2, image })
  return place.shell(ref, "cat /workspace/file")
}
const work = { code: 0, text: "work\n" }

test("the disk of an ended sandbox becomes its snapshot without a second copy", async () => {
  const ref = await place.start("big")
  const script = "head -c 200M /dev/zero > /workspace/big && echo work > /workspace/file"
  expect(await place.shell(ref, script)).toEqual({ code: 0, text: "" })
  const before = statSync(join(diskOf(ref), "upper/workspace/big"))
  const saved = await place.provider.snapshot(ref, "disk", limit(), { ends: true })
  const id = saved.is === "ok" ? saved.value.id : ""
  expect(existsSync(layerOf(id))).toBe(false)
  expect(await place.provider.terminate(ref)).toMatchObject({ is: "ok" })
  const after = statSync(join(layerOf(id), "workspace/big"))
  expect([after.ino, after.dev, after.size]).toEqual([before.ino, before.dev, 200 * 1024 * 1024])
  expect(existsSync(diskOf(ref))).toBe(false)
  expect(await snapshots()).toEqual([id])
  expect(await restored("big", id)).toEqual(work)
})

test("nothing runs in a sandbox between its last snapshot and its end", async () => {
  const ref = await place.start("still")
  await place.shell(
    ref,
    "setsid -f sh -c 'while :; do echo >> /workspace/beats; sleep 0.01; done' >/dev/null 2>&1",
  )
  const beats = join(diskOf(ref), "upper/workspace/beats")
  await until(() => existsSync(beats) && statSync(beats).size > 2, "the first beats")
  const saved = await place.provider.snapshot(ref, "disk", limit(), { ends: true })
  const id = saved.is === "ok" ? saved.value.id : ""
  const { size } = statSync(beats)
  expect(await stateOf(ref)).toBe("paused")
  await place.provider.terminate(ref)
  expect(statSync(join(layerOf(id), "workspace/beats")).size).toBe(size)
})

test("a sandbox that is wanted again after its last snapshot goes on, and the snapshot stays as it was", async () => {
  const { ref, id } = await savedForEnd("again")
  // Another process of the fleet: the first one was killed after the snapshot.
  expect(await place.open().resume(ref, life)).toMatchObject({ is: "ok" })
  expect(await stateOf(ref)).toBe("running")
  expect(await place.shell(ref, "cat /workspace/file; echo later > /workspace/file")).toEqual(work)
  expect(await snapshots()).toEqual([id])
  expect(await place.provider.terminate(ref)).toMatchObject({ is: "ok" })
  expect(await restored("again", id)).toEqual(work)
})

test("a sandbox whose processes ended after its last snapshot starts again with its work", async () => {
  const { ref, id } = await savedForEnd("reboot")
  await killProcesses(ref)
  expect(await place.open().resume(ref, life)).toMatchObject({ is: "ok" })
  expect(await place.shell(ref, "cat /workspace/file")).toEqual(work)
  await place.provider.terminate(ref)
  expect(await restored("reboot", id)).toEqual(work)
})

test("a terminate that was cut off before the rename is repeated, and the work is in the snapshot", async () => {
  const { ref, id } = await savedForEnd("before")
  await killProcesses(ref)
  expect(await place.open().terminate(ref)).toMatchObject({ is: "ok" })
  expect(await stateOf(ref)).toBe("missing")
  expect(await restored("before", id)).toEqual(work)
})

test("a terminate that was cut off after the rename keeps the layer, and a resume says that the sandbox is gone", async () => {
  for (const [session, call] of [
    ["after-resume", "resume"],
    ["after-terminate", "terminate"],
  ] as const) {
    const { ref, id } = await savedForEnd(session)
    await killProcesses(ref)
    renameSync(join(diskOf(ref), "upper"), layerOf(id))
    // Another removal collects the layers that nothing names.
    await place.provider.removeSnapshot("sp-none-1-1")
    expect(readdirSync(layerOf(id))).toContain("workspace")
    const next = place.open()
    const result = call === "resume" ? await next.resume(ref, life) : await next.terminate(ref)
    expect(result.is).toBe(call === "resume" ? "missing" : "ok")
    expect(await stateOf(ref)).toBe("missing")
    expect(await restored(session, id)).toEqual(work)
  }
})

test("a copy that was cut off while the sandbox was continued is made anew", async () => {
  const { ref, id } = await savedForEnd("cut")
  mkdirSync(join(`${layerOf(id)}.part`, "workspace"), { recursive: true })
  writeFileSync(join(`${layerOf(id)}.part`, "workspace/left"), "of the first copy")
  expect(await place.provider.resume(ref, life)).toMatchObject({ is: "ok" })
  expect(readdirSync(join(layerOf(id), "workspace"))).toEqual(["file"])
})

test("a sandbox is made from the last snapshot of one that has not ended yet, and removing it frees the disk", async () => {
  const { ref, id } = await savedForEnd("holder")
  const image = { kind: "snapshot", id } as const
  const made = await place.provider.create(specOf("other", { image }), limit())
  expect(made).toMatchObject({ is: "ok" })
  expect(await place.shell("sp-other-1", "cat /workspace/file")).toEqual(work)
  await place.provider.terminate("sp-other-1")
  await place.provider.terminate(ref)
  await place.provider.removeSnapshot(id)
  expect(await snapshots()).toEqual([])
  expect(readdirSync(join(place.root, "fleet/isolated/layers"))).toEqual(["base"])
})

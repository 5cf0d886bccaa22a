/** The layers of local disks: how a snapshot stacks on others, and when it becomes one layer again. */
import { afterAll, expect, test } from "bun:test"
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { openLayers } from "../../../src/fleet/providers/local-layers.ts"

const root = mkdtempSync(join(tmpdir(), "local-layers-"))
afterAll(() => rmSync(root, { recursive: true, force: true }))

const limit = () => AbortSignal.timeout(60_000)

test("a snapshot on twenty layers is one layer with all files, and the layers below it are deleted when nothing uses them", async () => {
  const layers = openLayers(join(root, "store"), undefined)
  const merged = join(root, "merged")
  mkdirSync(merged)
  let snapshot: string | undefined
  const depths: number[] = []
  for (let generation = 1; generation <= 22; generation += 1) {
    const disk = join(root, `disk${generation}`)
    const stack = await layers.createDisk(disk, "overlay", snapshot)
    // What the sandbox writes is in its own directory, and in the disk as it sees it.
    for (const folder of [join(disk, "upper"), merged])
      writeFileSync(join(folder, `file${generation}`), `of ${generation}\n`)
    const id = `s${generation}`
    const label = { deployment: generation === 22 ? "other" : "own", createdAt: generation }
    await layers.takeSnapshot(id, { disk, layers: stack ?? [], merged, ...label }, limit())
    const made = await layers.createDisk(join(root, `look${generation}`), "overlay", id)
    depths.push(made?.length ?? 0)
    if (snapshot !== undefined) layers.removeSnapshot(snapshot)
    layers.collect([])
    snapshot = id
  }
  expect(layers.listSnapshots("own")).toEqual([])
  expect(layers.listSnapshots("other")).toEqual([{ id: "s22", createdAt: 22 }])
  // The base and nineteen snapshots, then one layer, which grows again.
  expect(depths).toEqual([...Array.from({ length: 19 }, (_, index) => index + 2), 1, 2, 3])
  const flat = layers.pathsOf(["s20"])[0] ?? ""
  for (let generation = 1; generation <= 20; generation += 1)
    expect(readFileSync(join(flat, `file${generation}`), "utf8")).toBe(`of ${generation}\n`)
  expect(readdirSync(join(root, "store", "layers")).toSorted()).toEqual([
    "base",
    "s20",
    "s21",
    "s22",
  ])
  expect(existsSync(join(flat, "file21"))).toBe(false)
})

test("the disk of an ended sandbox becomes a snapshot by a rename, also if the first attempt was cut off after the rename", async () => {
  const layers = openLayers(join(root, "kept"), undefined)
  for (const isCutOff of [false, true]) {
    const disk = join(root, `kept-disk-${isCutOff}`)
    const id = `kept-${isCutOff}`
    const stack = (await layers.createDisk(disk, "overlay", undefined)) ?? []
    writeFileSync(join(disk, "upper", "file"), "work")
    const { ino } = statSync(join(disk, "upper", "file"))
    const path = layers.pathsOf([id])[0] ?? ""
    if (isCutOff) renameSync(join(disk, "upper"), path)
    const from = { disk, layers: stack, deployment: "own", createdAt: 1 }
    layers.keepDisk(id, from)
    layers.keepDisk(id, from)
    layers.collect([])
    expect(statSync(join(path, "file")).ino).toBe(ino)
    expect(existsSync(join(disk, "upper"))).toBe(false)
    expect(await layers.createDisk(join(root, `of-${id}`), "overlay", id)).toEqual([id, "base"])
  }
})

test("a copy leaves nothing of an earlier one that was cut off, and does not replace a snapshot", async () => {
  const layers = openLayers(join(root, "copied"), undefined)
  const disk = join(root, "copied-disk")
  const stack = (await layers.createDisk(disk, "overlay", undefined)) ?? []
  const path = layers.pathsOf(["copy"])[0] ?? ""
  mkdirSync(`${path}.part`)
  writeFileSync(join(`${path}.part`, "left"), "of the first copy")
  writeFileSync(join(disk, "upper", "file"), "work")
  const from = { disk, layers: stack, merged: undefined, deployment: "own", createdAt: 1 }
  await layers.takeSnapshot("copy", from, limit())
  expect(readdirSync(path)).toEqual(["file"])
  writeFileSync(join(disk, "upper", "file"), "later work")
  await layers.takeSnapshot("copy", from, limit())
  expect(readFileSync(join(path, "file"), "utf8")).toBe("work")
})

test("a copy that comes too late or fails leaves nothing behind", async () => {
  const layers = openLayers(join(root, "cut"), undefined)
  const disk = join(root, "cut-disk")
  const stack = (await layers.createDisk(disk, "overlay", undefined)) ?? []
  writeFileSync(join(disk, "upper", "file"), "work")
  const from = { disk, layers: stack, merged: undefined, deployment: "own", createdAt: 1 }
  const attempt = (signal: AbortSignal) =>
    layers.takeSnapshot("cut", from, signal).then(() => "it was made", String)
  expect(await attempt(AbortSignal.abort())).toContain("AbortError")
  expect(readdirSync(join(root, "cut", "layers"))).toEqual(["base"])
  rmSync(join(disk, "upper"), { recursive: true })
  expect(await attempt(limit())).toContain("cp failed")
  expect(readdirSync(join(root, "cut", "layers"))).toEqual(["base"])
  expect(layers.hasSnapshot("cut")).toBe(false)
})

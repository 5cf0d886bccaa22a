/** The layers of local disks: how a snapshot stacks on others, and when it becomes one layer again. */
import { afterAll, expect, test } from "bun:test"
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { openLayers } from "../../../src/fleet/providers/local-layers.ts"

const root = mkdtempSync(join(tmpdir(), "local-layers-"))
afterAll(() => rmSync(root, { recursive: true, force: true }))

const limit = () => AbortSignal.timeout(30_000)

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

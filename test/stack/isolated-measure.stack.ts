/** What counts as written by an isolated sandbox, and what its snapshots keep of it, in real sandboxes. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import type { DiskSize } from "../../src/fleet/core/disk-quota.ts"
import type { ImageChoice } from "../../src/fleet/providers/contract.ts"
import { untilTrue } from "../kit/until-true.ts"
import { type IsolatedPlace, limit, openIsolated } from "./isolated-kit.ts"

const MIB = 1024 * 1024
let place: IsolatedPlace
beforeAll(async () => {
  place = await openIsolated()
})
afterAll(() => place.end())

const measure = async (ref: string, holds = false): Promise<DiskSize> => {
  const found: DiskSize[] = []
  const decide = (use: DiskSize) => {
    found.push(use)
    return "continue" as const
  }
  expect(await place.provider.disks?.check(ref, { holds, limit: limit() }, decide)).toEqual({
    is: "ok",
    value: "continue",
  })
  return found[0] ?? { bytes: 0, inodes: 0 }
}
const mibOf = async (ref: string, holds = false): Promise<number> =>
  Math.round((await measure(ref, holds)).bytes / MIB)
const write = (file: string, mib: number) => `head -c ${mib}M /dev/zero > ${file}`
const run = async (ref: string, script: string) =>
  expect(await place.shell(ref, script)).toMatchObject({ code: 0 })
const save = async (ref: string): Promise<ImageChoice> => {
  const saved = await place.provider.snapshot(ref, "disk", limit())
  if (saved.is !== "ok") throw new Error(JSON.stringify(saved))
  return { kind: "snapshot", id: saved.value.id }
}
const layersOf = ({ id }: ImageChoice): readonly string[] =>
  (
    JSON.parse(
      readFileSync(join(place.root, "fleet/isolated/snapshots", `${id}.json`), "utf8"),
    ) as { readonly layers: readonly string[] }
  ).layers

test("the disk, /tmp and volumes count with each file once, holes and the memory of /run do not, and other sandboxes do not", async () => {
  const volumes = [{ name: "v", path: "/workspace" }]
  const [ref, other] = [await place.start("counted", { volumes }), await place.start("empty")]
  const empty = await measure(ref)
  await run(
    ref,
    [
      write("/tmp/seven", 7),
      "ln /tmp/seven /tmp/again",
      write("/workspace/five", 5),
      "truncate -s 1G /home/agent/sparse",
      "mkdir /tmp/many",
      "for i in $(seq 500); do : > /tmp/many/$i; done",
    ].join(" && "),
  )
  for (const holds of [false, true]) {
    const use = await measure(ref, holds)
    expect(Math.round((use.bytes - empty.bytes) / MIB)).toBe(12)
    // And the directories of lower layers in which they are.
    expect(use.inodes - empty.inodes).toBeGreaterThanOrEqual(504)
    expect(use.inodes - empty.inodes).toBeLessThan(510)
  }
  expect(await mibOf(other)).toBe(0)
})

test("a deleted file counts until its last process has closed it", async () => {
  const ref = await place.start("deleted")
  const before = await mibOf(ref)
  const script = `import os, time
file = open("/tmp/hidden", "wb"); file.write(bytes(9 << 20)); file.flush(); os.unlink("/tmp/hidden")
print("hidden", flush=True); time.sleep(600)`
  await run(
    ref,
    `setsid -f python3 -c '${script}' > /tmp/said 2>&1 < /dev/null; until grep -q hidden /tmp/said; do sleep 0.02; done`,
  )
  for (const holds of [false, true]) expect((await mibOf(ref, holds)) - before).toBe(9)
  await run(ref, "pkill python3")
  await untilTrue(async () => (await mibOf(ref)) === before, "the end of the file")
})

test("files of the session's earlier sandboxes count until they are deleted, and those of a base snapshot do not", async () => {
  const first = await place.start("base")
  await run(first, write("/home/agent/of-the-base", 30))
  const { id } = await save(first)
  const base: ImageChoice = { kind: "base", id }
  const second = await place.start("later", { image: base })
  expect(await mibOf(second)).toBe(0)
  await run(second, write("/home/agent/own", 20))
  const image = await save(second)
  await place.provider.terminate(second)
  const third = await place.start("later", { generation: 2, image })
  expect(await mibOf(third)).toBe(20)
  expect(await mibOf(third, true)).toBe(20)
  await run(third, "rm /home/agent/own /home/agent/of-the-base")
  await untilTrue(async () => (await mibOf(third)) === 0, "the space of the deleted file")
  // Another fleet on the same files knows it, too.
  expect(layersOf(image)).toHaveLength(3)
})

test("a snapshot keeps no layers of which most was deleted, so that a session does not grow with every sandbox", async () => {
  let image: ImageChoice = { kind: "image", id: "-" }
  for (const generation of [1, 2]) {
    const ref = await place.start("waste", { generation, image })
    await run(ref, `rm -f /home/agent/much; ${write("/home/agent/much", 300)}`)
    const before = image
    image = await save(ref)
    await place.provider.terminate(ref)
    if (before.kind === "snapshot") await place.provider.removeSnapshot(before.id)
  }
  expect(layersOf(image)).toHaveLength(3)
  const ref = await place.start("waste", { generation: 3, image })
  await run(ref, `rm /home/agent/much; ${write("/home/agent/little", 1)}`)
  // It is measured before, as every sandbox is.
  await untilTrue(async () => (await mibOf(ref)) === 1, "the size of what is left")
  const flat = await save(ref)
  await place.provider.terminate(ref)
  await place.provider.removeSnapshot(image.id)
  expect(layersOf(flat)).toHaveLength(1)
  const names = readdirSync(join(place.root, "fleet/isolated/layers"))
  expect(names.filter((name) => name.startsWith("sp-waste"))).toEqual([flat.id])
  const last = await place.start("waste", { generation: 4, image: flat })
  expect(await place.shell(last, "ls /home/agent")).toEqual({ code: 0, text: "little\n" })
}, 120_000)

test("a sandbox cannot write what it is told about its disk", async () => {
  const ref = await place.start("told")
  const report = { state: "full", usedBytes: 2, limitBytes: 1, usedFiles: 1, advice: "x" } as const
  place.provider.disks?.setReport(ref, report)
  expect(await place.shell(ref, "cat /run/sandpiper/disk.json")).toEqual({
    code: 0,
    text: JSON.stringify(report),
  })
  const refused = await place.shell(
    ref,
    "echo x > /run/sandpiper/disk.json; rm -rf /run/sandpiper; mv /run/sandpiper /run/other",
  )
  expect(refused.code).not.toBe(0)
  place.provider.disks?.setReport(ref, { state: "ok", usedBytes: 1, usedFiles: 1 })
  expect((await place.shell(ref, "cat /run/sandpiper/disk.json")).text).toContain('"ok"')
})

/** A session that is saved and restored more often than a disk may have layers keeps its files, in a real isolated sandbox. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { type IsolatedPlace, limit, openIsolated } from "./isolated-kit.ts"

const GENERATIONS = 23
let place: IsolatedPlace
beforeAll(async () => {
  place = await openIsolated()
})
afterAll(() => place.end())

test("after more saves than a disk has layers every file is there, and deleted ones are not", async () => {
  let image = { kind: "image", id: "-" } as { kind: "image" | "snapshot"; id: string }
  const depths: number[] = []
  for (let generation = 1; generation <= GENERATIONS; generation += 1) {
    const ref = await place.start("layers", { generation, image })
    const script = [
      `echo ${generation} > /workspace/file${generation}`,
      `echo gone > /workspace/temporary${generation}`,
      `rm -f /workspace/temporary${generation - 1}`,
    ].join(" && ")
    expect(await place.shell(ref, script)).toEqual({ code: 0, text: "" })
    const saved = await place.provider.snapshot(ref, "disk", limit())
    if (saved.is !== "ok") throw new Error(JSON.stringify(saved))
    await place.provider.terminate(ref)
    const file = join(place.root, "fleet", "isolated", "snapshots", `${saved.value.id}.json`)
    depths.push((JSON.parse(readFileSync(file, "utf8")) as { layers: string[] }).layers.length)
    if (image.kind === "snapshot") await place.provider.removeSnapshot(image.id)
    image = { kind: "snapshot", id: saved.value.id }
  }
  expect(Math.max(...depths)).toBe(20)
  expect(depths).toContain(1)
  const ref = await place.start("layers", { generation: GENERATIONS + 1, image })
  const { text } = await place.shell(
    ref,
    "cd /workspace && cat file* | sort -n | tr '\\n' ' '; ls temporary*",
  )
  const all = Array.from({ length: GENERATIONS }, (_, index) => index + 1).join(" ")
  expect(text).toBe(`${all} temporary${GENERATIONS}\n`)
  // The user in the sandbox is the same, and may write.
  expect(await place.shell(ref, "touch /workspace/more && id -un")).toEqual({
    code: 0,
    text: "agent\n",
  })
}, 180_000)

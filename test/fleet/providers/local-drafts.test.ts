/** Half-made copies of local snapshots whose process was killed, in both modes of local sandboxes. */
import { afterAll, expect, test } from "bun:test"
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { openLayers } from "../../../src/fleet/providers/local-layers.ts"
import { plainMode } from "../../../src/fleet/providers/local-plain.ts"
import { untilTrue } from "../../kit/until-true.ts"

const root = mkdtempSync(join(tmpdir(), "local-drafts-"))
afterAll(() => rmSync(root, { recursive: true, force: true }))

const source = join(import.meta.dir, "../../../src/fleet/providers")

/** So many that the copy is under way for a while. */
const writeFiles = (folder: string) => {
  mkdirSync(folder, { recursive: true })
  for (let number = 0; number < 4000; number += 1) writeFileSync(join(folder, `${number}`), "x")
}

const modes = [
  {
    name: "isolated",
    copies: join(root, "isolated", "layers"),
    fill: () => writeFiles(join(root, "disk", "upper")),
    open: () => openLayers(join(root, "isolated"), undefined),
    take: (id: string) => `import { openLayers } from "${source}/local-layers.ts"
      const from = { disk: "${root}/disk", layers: [], merged: undefined, deployment: "d", createdAt: 1 }
      await openLayers("${root}/isolated", undefined).takeSnapshot("${id}", from, AbortSignal.timeout(60_000))`,
  },
  {
    name: "plain",
    copies: join(root, "plain", "snapshots"),
    fill: () => writeFiles(join(root, "plain", "files", "s", "workspace")),
    open: () => plainMode({ root: join(root, "plain"), self: [], now: Date.now }),
    take: (id: string) => `import { plainMode } from "${source}/local-plain.ts"
      const mode = plainMode({ root: "${root}/plain", self: [], now: Date.now })
      await mode.takeSnapshot({ session: "s", deployment: "d" }, "${id}", AbortSignal.timeout(60_000))`,
  },
]

for (const { name, copies, fill, open, take } of modes) {
  const drafts = () =>
    existsSync(copies) ? readdirSync(copies).filter((file) => file.endsWith(".part")) : []

  test(`the draft of a snapshot whose process was killed is removed at the next start, and one that is being made is not (${name})`, async () => {
    fill()
    const begin = async (id: string) => {
      const child = Bun.spawn([process.execPath, "-e", take(id)], { stderr: "inherit" })
      const isOver = () => readdirSync(copies).includes(id)
      mkdirSync(copies, { recursive: true })
      await untilTrue(() => drafts().length > 0 || isOver(), `draft of the snapshot ${id}`)
      child.kill("SIGSTOP")
      return child
    }
    let child = await begin("cut-1")
    // On a busy machine the copy may have been faster.
    for (let attempt = 2; drafts().length === 0 && attempt < 10; attempt += 1) {
      child.kill("SIGKILL")
      child = await begin(`cut-${attempt}`)
    }
    const complete = readdirSync(copies).filter((file) => !file.endsWith(".part"))
    open()
    expect(drafts()).toHaveLength(1)
    child.kill("SIGKILL")
    await child.exited
    // A copy program of the killed process may still write.
    await untilTrue(async () => {
      open()
      return drafts().length === 0
    }, "the draft is removed")
    expect(readdirSync(copies).toSorted()).toEqual(complete.toSorted())
  })

  test(`a draft of an earlier version, which does not name its process, is removed when no copy can take so long (${name})`, () => {
    open()
    const draft = join(copies, "old-1.part")
    mkdirSync(draft)
    open()
    expect(existsSync(draft)).toBe(true)
    const past = new Date(Date.now() - 2 * 3_600_000)
    utimesSync(draft, past, past)
    open()
    expect(existsSync(draft)).toBe(false)
  })
}

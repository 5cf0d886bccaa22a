/** The display folder on a real disk: what is sent at the end of a turn, and what is refused. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test"
import { Database } from "bun:sqlite"
import { link, mkdir, mkdtemp, rm, symlink, truncate, utimes, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { openDisplayStore } from "../../../../src/runner/sandbox/display/display-store.ts"
import { createDisplayReporter } from "../../../../src/runner/sandbox/display/report-display.ts"
import type { Outbound, OutboundFrame } from "../../../../src/wire/frames/index.ts"
import { displayLimits } from "../../../../src/wire/frames/display.ts"
import { silentLog } from "../../../kit/log.ts"

const TURN = { turnId: "t1", messageId: "m1", channelType: "web", channelId: "default" }

let root: string
let db: Database
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "display-"))
  await mkdir(join(root, "work"))
  db = new Database(":memory:", { strict: true })
})
afterEach(async () => {
  db.close()
  await rm(root, { recursive: true, force: true })
})

const inFolder = (path: string) => join(root, "work/output/display", path)
const put = async (path: string, content: string | Uint8Array) => {
  await mkdir(dirname(inFolder(path)), { recursive: true })
  await writeFile(inFolder(path), content)
}

/** A runner on the same database: `endTurn` resolves with the frame, if one was sent. */
const startReporter = async () => {
  const frames: OutboundFrame[] = []
  const reporter = createDisplayReporter({
    workDir: join(root, "work"),
    store: openDisplayStore(db),
    owner: undefined,
    send: (frame) => void frames.push(frame),
    log: silentLog,
  })
  reporter.start()
  await reporter.settled()
  const endTurn = async (isStored = true) => {
    const before = frames.length
    reporter.turnEnded(TURN)
    await reporter.settled()
    if (isStored) {
      reporter.persist()
      reporter.persisted()
    }
    expect(frames.length - before).toBeLessThanOrEqual(1)
    return frames[before] as Outbound<"artifacts"> | undefined
  }
  return { endTurn }
}
const contents = (frame: Outbound<"artifacts"> | undefined) =>
  Object.fromEntries(frame?.files.map(({ path, data }) => [path, atob(data)]) ?? [])

describe("files in output/display", () => {
  test("new and changed files are sent in one frame, unchanged and touched ones not again", async () => {
    const { endTurn } = await startReporter()
    expect(await endTurn()).toBeUndefined()
    await put("a.txt", "one")
    await put("deep/er/b.txt", "two")
    const first = await endTurn()
    expect(first).toMatchObject({ type: "artifacts", ...TURN })
    expect(contents(first)).toEqual({ "a.txt": "one", "deep/er/b.txt": "two" })
    expect(await endTurn()).toBeUndefined()
    await utimes(inFolder("a.txt"), 1, 1)
    expect(await endTurn()).toBeUndefined()
    await put("a.txt", "three")
    expect(contents(await endTurn())).toEqual({ "a.txt": "three" })
  })

  test("files that a clone brought are not shown until the agent changes them", async () => {
    await put("old.txt", "from the clone")
    const { endTurn } = await startReporter()
    expect(await endTurn()).toBeUndefined()
    await put("old.txt", "by the agent")
    expect(contents(await endTurn())).toEqual({ "old.txt": "by the agent" })
  })

  test("the next runner does not send again what was stored, and sends what was not", async () => {
    const first = await startReporter()
    await put("a.txt", "stored")
    await first.endTurn()
    await put("b.txt", "lost with the process")
    await first.endTurn(false)
    const second = await startReporter()
    expect(contents(await second.endTurn())).toEqual({ "b.txt": "lost with the process" })
  })

  test("links, FIFOs, large files and programs are named and never read, and block nothing", async () => {
    const { endTurn } = await startReporter()
    await writeFile(join(root, "secret"), "outside")
    await put("fine.txt", "fine")
    await symlink(join(root, "secret"), inFolder("link.txt"))
    await Bun.$`mkfifo ${inFolder("pipe")}`
    await put("large.bin", "")
    await truncate(inFolder("large.bin"), displayLimits.fileBytes + 1)
    await put("program", "\x7fELF\0\0")
    const frame = await endTurn()
    expect(contents(frame)).toEqual({ "fine.txt": "fine" })
    expect(frame?.omitted?.map(({ path }) => path).toSorted()).toEqual([
      "large.bin",
      "link.txt",
      "pipe",
      "program",
    ])
    expect(JSON.stringify(frame)).not.toContain(btoa("outside"))
    expect(await endTurn()).toBeUndefined()
  })

  test.each(["output", "output/display"])(
    "a link in the place of %s is not followed",
    async (at) => {
      const { endTurn } = await startReporter()
      const target = join(root, "elsewhere")
      await mkdir(join(target, "display"), { recursive: true })
      await writeFile(join(target, "secret.txt"), "outside")
      await writeFile(join(target, "display/secret.txt"), "outside")
      await mkdir(dirname(join(root, "work", at)), { recursive: true })
      await symlink(target, join(root, "work", at))
      expect(await endTurn()).toBeUndefined()
    },
  )

  test("a hard link to a file that the agent's user may not read is not sent", async () => {
    const frames: OutboundFrame[] = []
    const reporter = createDisplayReporter({
      workDir: join(root, "work"),
      store: openDisplayStore(db),
      owner: { uid: 54_321, gid: 54_321 },
      send: (frame) => void frames.push(frame),
      log: silentLog,
    })
    reporter.start()
    await reporter.settled()
    await put("readable.txt", "for everyone")
    await writeFile(join(root, "secret"), "for the runner only", { mode: 0o600 })
    await link(join(root, "secret"), inFolder("secret.txt"))
    reporter.turnEnded(TURN)
    await reporter.settled()
    const [frame] = frames as Outbound<"artifacts">[]
    expect(contents(frame)).toEqual({ "readable.txt": "for everyone" })
    expect(frame?.omitted?.map(({ path }) => path)).toEqual(["secret.txt"])
    expect(JSON.stringify(frames)).not.toContain(btoa("for the runner only"))
  })

  test("one turn sends at most twenty files and names the others once", async () => {
    const { endTurn } = await startReporter()
    for (let index = 0; index < 25; index += 1)
      await put(`${String(index).padStart(2, "0")}.txt`, `file ${index}`)
    const frame = await endTurn()
    expect(frame?.files.length).toBe(20)
    expect(frame?.omitted?.map(({ path }) => path)).toEqual(
      ["20", "21", "22", "23", "24"].map((name) => `${name}.txt`),
    )
    expect(await endTurn()).toBeUndefined()
  })
})

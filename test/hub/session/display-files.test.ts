/** Files that the agent shows, as the hub stores them. The sandbox that sends them is not trusted. */
import { describe, expect, test } from "bun:test"
import { displayLimits } from "../../../src/wire/frames/display.ts"
import { type Core, createCore } from "../kit/core.ts"

const origin = { channelType: "web", channelId: "default", turnId: "t1" }
const file = (path: string, content: string, sha = content) => ({
  path,
  sha256: new Bun.CryptoHasher("sha256").update(sha).digest("hex"),
  data: Buffer.from(content, "latin1").toString("base64"),
})

const connected = () => {
  const core = createCore()
  let seq = core.connectRunner("a")
  const show = (files: readonly object[], more: object = {}) => {
    core.receive("a", { type: "artifacts", ...origin, files, ...more, seq })
    seq += 1
  }
  return { core, show }
}
const shown = (core: Core) =>
  core.session.snapshot().artifacts.map(({ description, mime }) => `${description} ${mime}`)
const notes = (core: Core) =>
  core.session
    .snapshot()
    .messages.flatMap(({ role, parts }) =>
      role === "system" ? parts.map(({ text }) => text ?? "") : [],
    )

describe("files that the agent shows", () => {
  test("the same content under the same path is one artifact, another content or path is another one", () => {
    const { core, show } = connected()
    show([file("a.txt", "one"), file("b.txt", "one")])
    show([file("a.txt", "one"), file("a.txt", "two")])
    expect(shown(core)).toEqual(["a.txt text/plain", "b.txt text/plain", "a.txt text/plain"])
    expect([...core.blobs.values()].map(atob)).toEqual(["one", "one", "two"])
    const events = core.broadcasts.filter(({ type }) => type === "artifact")
    expect(events.length).toBe(3)
    expect(events[0]).toMatchObject({ artifact: { messageId: "t1", bytes: 3 } })
  })

  test("a hub that restarts still knows which files it has", () => {
    const { core, show } = connected()
    show([file("a.txt", "one")])
    const next = core.restart()
    const seq = next.connectRunner("b", { epoch: "other" })
    next.receive("b", { type: "artifacts", ...origin, files: [file("a.txt", "one")], seq })
    expect(shown(next)).toEqual(["a.txt text/plain"])
    expect(next.blobs.size).toBe(1)
  })

  test("the type comes from the content, not from the sandbox", () => {
    const { core, show } = connected()
    show([file("page.png", "<script>alert(1)</script>"), file("x.txt", "\x89PNG\r\n\x1a\n")])
    expect(shown(core)).toEqual(["page.png text/plain", "x.txt image/png"])
  })

  test("a program, broken base64 and too much content are not stored, and the conversation says so", () => {
    const { core, show } = connected()
    show([file("program", "\x7fELF\0"), { ...file("broken", "x"), data: "%%%" }])
    const large = "y".repeat(displayLimits.fileBytes)
    show(["1", "2", "3", "4"].map((name) => file(name, large, name)))
    expect(shown(core)).toEqual(["1 text/plain", "2 text/plain", "3 text/plain"])
    expect(notes(core)[0]).toContain("- program: its type is not shown")
    expect(notes(core)[0]).toContain("- broken: its content is not base64")
    expect(notes(core)[1]).toContain("- 4: it is too large")
  })

  test("files that the runner leaves out are named in the conversation, on one line each", () => {
    const { core, show } = connected()
    show([], { omitted: [{ path: "a\n# heading`", reason: "it is a link" }] })
    expect(notes(core)).toEqual(["Not shown of `output/display`:\n- a # heading : it is a link"])
  })

  test("a sandbox that shows files without end is stopped at a thousand", () => {
    const { core, show } = connected()
    for (let turn = 0; turn < 51; turn += 1)
      show(Array.from({ length: 20 }, (_, index) => file(`${turn}-${index}`, `${turn}-${index}`)))
    expect(shown(core).length).toBe(1000)
    expect(notes(core)[0]).toContain("- 50-0: the session has shown 1000 files already")
  })

  test("a frame with more files than a turn may show is refused as a whole", () => {
    const { core, show } = connected()
    show(Array.from({ length: 21 }, (_, index) => file(`${index}`, `${index}`)))
    expect(shown(core)).toEqual([])
  })
})

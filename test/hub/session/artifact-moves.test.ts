/** Files that the agent shows move from the hub's blobs to object storage: once, in order, and never lost on the way. */
import { describe, expect, test } from "bun:test"
import type { ArtifactObjects } from "../../../src/hub/session/ports.ts"
import { type Core, createCore } from "../kit/core.ts"
import { untilTrue } from "../../kit/until-true.ts"

const origin = { channelType: "web", channelId: "default", turnId: "t1" }
const file = (path: string, content: string) => ({
  path,
  sha256: new Bun.CryptoHasher("sha256").update(content).digest("hex"),
  data: btoa(content),
})

/** A storage whose uploads wait until they are let through or refused. */
const storage = () => {
  const stored = new Map<string, string>()
  const waiting: { readonly id: string; readonly settle: (error?: Error) => void }[] = []
  const objects: ArtifactObjects = {
    put: async (id, mime, base64) => {
      const { promise, resolve, reject } = Promise.withResolvers<void>()
      waiting.push({ id, settle: (error) => (error ? reject(error) : resolve()) })
      await promise
      stored.set(id, `${mime} ${atob(base64)}`)
    },
    get: () => Promise.reject(new Error("this test reads nothing")),
  }
  const next = async (error?: Error) => {
    await untilTrue(() => waiting.length > 0, "an upload")
    const { id, settle } = waiting.shift()!
    settle(error)
    return id
  }
  return { objects, stored, waiting, next }
}

const open = (objects: ArtifactObjects, more: Parameters<typeof createCore>[4] = {}) => {
  const core = createCore(undefined, undefined, undefined, undefined, { objects, ...more })
  let seq = core.connectRunner("a")
  const showIn = (channel: object, ...files: readonly object[]) => {
    core.receive("a", { type: "artifacts", ...origin, ...channel, files, seq })
    seq += 1
  }
  return { core, showIn, show: (...files: readonly object[]) => showIn({}, ...files) }
}
const shownIds = (core: Core) => core.session.snapshot().artifacts.map(({ id }) => id)

describe("a file that the agent shows", () => {
  test("a file that the agent shows is moved once, one file at a time, and its blob is deleted when the storage has it", async () => {
    const { objects, stored, waiting, next } = storage()
    const { core, show } = open(objects)
    show(file("a.txt", "one"), file("b.txt", "two"))
    await untilTrue(() => waiting.length === 1, "the first upload")
    expect(core.blobs.size).toBe(2)
    const first = await next()
    await untilTrue(() => waiting.length === 1, "the second upload")
    expect(core.blobs.has(first)).toBe(false)
    await next()
    await untilTrue(() => core.blobs.size === 0, "no blob")
    expect([...stored.values()].toSorted()).toEqual(["text/plain one", "text/plain two"])
    show(file("a.txt", "one"))
    expect(waiting).toEqual([])
    expect(shownIds(core).toSorted()).toEqual([...stored.keys()].toSorted())
  })

  test("a file that the agent shows stays a blob while the storage fails, and is sent again later", async () => {
    const { objects, stored, waiting, next } = storage()
    const { core, show } = open(objects)
    show(file("a.txt", "one"))
    await next(new Error("the object storage answered 503"))
    await untilTrue(() => core.reports.includes("hub.delivery-failed"), "the failure")
    expect([core.blobs.size, waiting.length]).toEqual([1, 0])
    core.clock.advance(300_000)
    await next()
    await untilTrue(() => core.blobs.size === 0, "no blob")
    expect(stored.size).toBe(1)
  })

  test("a file that the agent shows is moved by the next start of a hub that ended during the upload", async () => {
    const { objects, stored, next } = storage()
    const { core, show } = open(objects)
    show(file("a.txt", "one"))
    const [id = ""] = shownIds(core)
    const restarted = core.restart()
    restarted.session.recover([])
    await next()
    expect(await next()).toBe(id)
    await untilTrue(() => restarted.blobs.size === 0, "no blob")
    expect([...stored.keys()]).toEqual([id])
    expect(restarted.session.artifactType(id)).toBe("text/plain")
  })

  test("a file that the agent shows leaves no blob when the hub ended after the move and before the deletion", async () => {
    const { objects, next } = storage()
    const { core, show } = open(objects)
    show(file("a.txt", "one"))
    const [id = ""] = shownIds(core)
    await next()
    await untilTrue(() => core.blobs.size === 0, "no blob")
    core.blobs.set(id, btoa("one"))
    core.restart().session.recover([])
    expect(core.blobs.size).toBe(0)
  })

  test("a file that the agent shows is not moved before the chat service of its channel has it", async () => {
    const { objects, stored, waiting, next } = storage()
    const gate = Promise.withResolvers<void>()
    const sentImages: (string | undefined)[] = []
    const { core, showIn } = open(objects, {
      chats: {
        maxTextLength: () => 1000,
        send: async (_type, _id, { image }) => {
          sentImages.push(image?.base64)
          await gate.promise
        },
        wasSent: async () => false,
      },
    })
    const channel = { channelType: "slack", channelId: "C1" }
    core.session.prompt(
      { type: "prompt", messageId: "p1", content: "show it", ...channel },
      "slack:C1",
    )
    showIn(channel, file("a.txt", "one"))
    await untilTrue(() => sentImages.length === 1, "the message to the chat")
    expect([waiting.length, core.blobs.size]).toEqual([0, 1])
    gate.resolve()
    await untilTrue(
      () => core.sql.all("SELECT 1 FROM deliveries WHERE kind = 'chat-message'").length === 0,
      "the end of the message to the chat",
    )
    core.clock.advance(60_000)
    await next()
    await untilTrue(() => core.blobs.size === 0, "no blob")
    expect(sentImages).toEqual([btoa("one")])
    expect(stored.size).toBe(1)
  })

  test("a file that the agent shows stays a blob on a hub without object storage", () => {
    const core = createCore()
    const seq = core.connectRunner("a")
    core.receive("a", { type: "artifacts", ...origin, files: [file("a.txt", "one")], seq })
    core.clock.advance(3_600_000)
    expect(core.blobs.size).toBe(1)
  })
})

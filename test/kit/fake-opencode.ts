/**
 * A fake OpenCode for benchmarks at rates that the real one does not reach. It implements the part of the HTTP API that a
 * turn needs and prints its port when started as a program.
 *
 * A prompt with `deltas=N rate=R` is answered with N deltas at R deltas per second (0: as fast as possible). The text of
 * every delta is its creation time, so that a reader can compute its age.
 */

interface Conversation {
  busy: boolean
  readonly messages: { info: Record<string, unknown>; parts: Record<string, unknown>[] }[]
}

const conversations = new Map<string, Conversation>()
const listeners = new Set<ReadableStreamDefaultController<Uint8Array>>()
const encoder = new TextEncoder()
let counter = 0

const id = (prefix: string) => {
  counter += 1
  return `${prefix}_${String(counter).padStart(12, "0")}`
}

const frameOf = (type: string, properties: object): string => {
  counter += 1
  return `data: {"directory":"/w","payload":{"id":"evt_${counter}","type":"${type}","properties":${JSON.stringify(properties)}}}\n\n`
}

const emit = (text: string) => {
  const bytes = encoder.encode(text)
  for (const listener of listeners) listener.enqueue(bytes)
}

const now = () => performance.timeOrigin + performance.now()

/** Chunks queued for the slowest reader. A stream without a rate waits for it, as TCP backpressure would. */
const backlog = () => Math.max(0, ...[...listeners].map((listener) => -(listener.desiredSize ?? 0)))

const answer = async (
  sessionID: string,
  body: { messageID: string; parts: { text?: string }[] },
) => {
  const conversation = conversations.get(sessionID)
  if (!conversation) return
  const asked = body.parts.map((part) => part.text ?? "").join("\n")
  const count = Number(/deltas=(\d+)/.exec(asked)?.[1] ?? 10)
  const rate = Number(/rate=(\d+)/.exec(asked)?.[1] ?? 0)
  const created = Date.now()
  const user = { id: body.messageID, sessionID, role: "user", time: { created } }
  const info = {
    id: id("msg"),
    sessionID,
    role: "assistant",
    parentID: body.messageID,
    time: { created } as { created: number; completed?: number },
    providerID: "fake",
    modelID: "m",
  }
  const part = {
    id: id("prt"),
    messageID: info.id,
    sessionID,
    type: "text",
    text: "",
    time: { start: created },
  }
  conversation.busy = true
  conversation.messages.push({ info: user, parts: [] })
  emit(frameOf("message.updated", { sessionID, info: user }))
  emit(frameOf("session.status", { sessionID, status: { type: "busy" } }))
  emit(frameOf("message.updated", { sessionID, info }))
  emit(frameOf("message.part.updated", { sessionID, part }))
  const deltas: string[] = []
  let batch = ""
  const started = performance.now()
  for (let index = 0; index < count; index += 1) {
    if (rate > 0) {
      const due = started + (index * 1000) / rate
      while (performance.now() < due - 1) {
        // Sleep: the pace of the deltas.
        await Bun.sleep(1)
      }
    }
    const delta = `${now().toFixed(3)} `
    deltas.push(delta)
    batch += frameOf("message.part.delta", {
      sessionID,
      messageID: info.id,
      partID: part.id,
      field: "text",
      delta,
    })
    if (rate > 0 || batch.length > 16_384) {
      emit(batch)
      batch = ""
      while (rate === 0 && backlog() > 64) {
        // Sleep: yields until the reader has taken what was written.
        await Bun.sleep(0)
      }
    }
  }
  if (batch !== "") emit(batch)
  const whole = { ...part, text: deltas.join(""), time: { start: created, end: Date.now() } }
  const done = { ...info, time: { created, completed: Date.now() }, finish: "stop" }
  conversation.messages.push({ info: done, parts: [whole] })
  conversation.busy = false
  emit(frameOf("message.part.updated", { sessionID, part: whole }))
  emit(frameOf("message.updated", { sessionID, info: done }))
  emit(frameOf("session.status", { sessionID, status: { type: "idle" } }))
  emit(frameOf("session.idle", { sessionID }))
}

const events = () =>
  new Response(
    new ReadableStream<Uint8Array>({
      start: (controller) => {
        listeners.add(controller)
        controller.enqueue(encoder.encode(frameOf("server.connected", {})))
      },
      cancel: () => {},
    }),
    { headers: { "content-type": "text/event-stream" } },
  )

const flag = (name: string): string | undefined => {
  const index = process.argv.indexOf(name)
  return index === -1 ? undefined : process.argv[index + 1]
}

const server = Bun.serve({
  hostname: "127.0.0.1",
  port: Number(flag("--port") ?? 0),
  idleTimeout: 255,
  routes: {
    "/global/health": () => Response.json({ healthy: true, version: "1.18.33" }),
    "/config": () => Response.json({}),
    "/config/providers": () =>
      Response.json({ providers: [{ id: "fake", models: { m: { id: "m" } } }], default: {} }),
    "/global/event": events,
    "/session": () => {
      const sessionID = id("ses")
      conversations.set(sessionID, { busy: false, messages: [] })
      return Response.json({ id: sessionID })
    },
    "/session/status": () =>
      Response.json(
        Object.fromEntries(
          [...conversations].filter(([, { busy }]) => busy).map(([key]) => [key, { type: "busy" }]),
        ),
      ),
    "/session/:id": ({ params }) =>
      conversations.has(params.id)
        ? Response.json({ id: params.id })
        : new Response("", { status: 404 }),
    "/session/:id/message": ({ params }) =>
      Response.json(conversations.get(params.id)?.messages ?? []),
    "/session/:id/abort": () => Response.json(true),
    "/session/:id/prompt_async": async (request) => {
      const body = (await request.json()) as Parameters<typeof answer>[1]
      void answer(request.params.id, body)
      return new Response(null, { status: 204 })
    },
  },
  fetch: () => Response.json([]),
})

process.stdout.write(`${server.port}\n`)

export const port = server.port

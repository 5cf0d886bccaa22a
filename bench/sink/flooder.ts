/**
 * A runner with a valid token that sends frames without waiting. Arguments: address of the hub, session, token, number of frames,
 * `requests` or `statuses`. Prints a line when it begins, and the seconds until everything was answered or acknowledged.
 */
import { WebSocket } from "ws"

const [url = "", session = "", token = "", amount = "0", kind = "requests"] = process.argv.slice(2)
const count = Number(amount)
const address = `${url.replace(/^http/, "ws")}/sessions/${session}/ws?role=runner&token=${token}`
const socket = new WebSocket(address)

const hello = {
  type: "hello",
  protocol: 2,
  runner: { name: "flooder", version: "0" },
  sessionId: session,
  epoch: crypto.randomUUID(),
  nextSeq: 1,
  active: [],
}
const frameOf = (seq: number): object =>
  kind === "requests"
    ? {
        type: "mailbox-send",
        requestId: `${hello.epoch}-${seq}`,
        toSessionId: session,
        content: "spam",
        seq,
      }
    : { type: "agentStatus", status: "thinking", detail: `flood ${seq}`, seq }

const done = Promise.withResolvers<void>()
let answered = 0
let started = 0
socket.on("open", () => {
  socket.send(JSON.stringify(hello))
  process.stdout.write("begins\n")
  started = performance.now()
  for (let seq = 1; seq <= count; seq += 1) socket.send(JSON.stringify(frameOf(seq)))
})
socket.on("message", (data: Buffer) => {
  const frame = JSON.parse(data.toString()) as { readonly type: string; readonly seq?: number }
  if (frame.type === "mailbox-send-result") answered += 1
  const isOver =
    kind === "requests" ? answered === count : frame.type === "ack" && frame.seq === count
  if (isOver) done.resolve()
})
socket.on("close", (code, reason) =>
  done.reject(new Error(`the hub closed: ${code} ${reason.toString()}`)),
)
socket.on("error", done.reject)
await done.promise
process.stdout.write(`${((performance.now() - started) / 1000).toFixed(1)}\n`)
socket.terminate()

/**
 * Clients of a hub in a separate process: subscribe and record the age of every delta. Arguments: addresses (comma
 * separated), token, sessions, clients per session. Prints `ready`, and one line of JSON after a line of input.
 */
import { percentile } from "../measure.ts"

const [urls = "", token = "", sessions = "1", clients = "1"] = process.argv.slice(2)
const addresses = urls.split(",")
const ages: number[] = []
let frames = 0

const connect = (session: number) =>
  new Promise<void>((resolve, reject) => {
    const url = addresses[session % addresses.length] ?? ""
    const address = `${url.replace(/^http/, "ws")}/sessions/s${session}/ws?role=client&token=${token}`
    const socket = new WebSocket(address)
    socket.addEventListener("open", () => socket.send('{"type":"subscribe"}'))
    socket.addEventListener("error", () => reject(new Error(`no client for s${session}`)))
    socket.addEventListener("message", ({ data }) => {
      const text = String(data)
      if (text.includes('"snapshot"')) return resolve()
      if (!text.includes('"part.delta"')) return
      frames += 1
      const now = performance.timeOrigin + performance.now()
      const { text: deltas } = JSON.parse(text) as { text: string }
      for (const made of deltas.trim().split(" ")) ages.push(now - Number(made))
    })
  })

for (let session = 0; session < Number(sessions); session += 1) {
  await Promise.all(Array.from({ length: Number(clients) }, () => connect(session)))
}
process.stdout.write("ready\n")
for await (const _ of process.stdin) break
const result = {
  deltas: ages.length,
  frames,
  p50: percentile(ages, 0.5),
  p99: percentile(ages, 0.99),
  most: percentile(ages, 1),
}
process.stdout.write(`${JSON.stringify(result)}\n`)
process.exit(0)

/** `/api/terminal`: a shell over one WebSocket, and who may open it. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { existsSync } from "node:fs"
import { WebSocket } from "ws"
import { untilTrue } from "../../kit/until-true.ts"
import {
  API_TOKEN,
  logIn,
  makeControlToken,
  makeToken,
  startTestGateway,
  type TestGateway,
} from "./kit.ts"

let gateway: TestGateway
const open: WebSocket[] = []
beforeAll(() => {
  gateway = startTestGateway()
})
afterAll(async () => {
  for (const socket of open) socket.terminate()
  await gateway.stop()
})

type Headers = Readonly<Record<string, string>>

/** The socket when it is open, or the status of the refusal. */
const connect = (query: string, headers: Headers): Promise<Shell | number> => {
  const socket = new WebSocket(`${gateway.url.replace("http", "ws")}/api/terminal${query}`, {
    headers,
  })
  open.push(socket)
  let text = ""
  socket.on("message", (data: Buffer) => {
    text += data.toString("latin1")
  })
  const closed = new Promise<string>((resolve) => {
    socket.on("close", (_code, reason) => resolve(String(reason)))
  })
  return new Promise((resolve) => {
    socket.on("unexpected-response", (_request, response) => resolve(response.statusCode ?? 0))
    socket.on("error", () => resolve(0))
    socket.on("open", () =>
      resolve({
        send: (message) => socket.send(message),
        seen: (pattern) => untilTrue(() => pattern.test(text), `${pattern} in the output`),
        text: () => text,
        closed,
        close: () => socket.close(),
      }),
    )
  })
}
interface Shell {
  readonly send: (message: string | Buffer) => void
  readonly seen: (pattern: RegExp) => Promise<void>
  readonly text: () => string
  readonly closed: Promise<string>
  readonly close: () => void
}
const control = () => ({ authorization: `Bearer ${makeControlToken()}` })
const shell = async (query = "", headers: Headers = control()): Promise<Shell> => {
  const connected = await connect(query, headers)
  if (typeof connected === "number") throw new Error(`refused with ${connected}`)
  return connected
}

describe("a shell over /api/terminal", () => {
  test("a shell over /api/terminal takes input as text and as bytes and has the size of the query, then that of a resize", async () => {
    const one = await shell("?cols=91&rows=33")
    one.send("stty size\r")
    await one.seen(/33 91/)
    one.send(JSON.stringify({ type: "resize", cols: 70, rows: 20 }))
    one.send(Buffer.from("stty size\r"))
    await one.seen(/20 70/)
    one.close()
    await one.closed
  })

  test("a shell over /api/terminal ends with its connection, with all its programs", async () => {
    const one = await shell()
    one.send("sleep 1000 & echo pid=$!=\r")
    await one.seen(/pid=(\d+)=/)
    const pid = /pid=(\d+)=/.exec(one.text())?.[1] ?? ""
    expect(existsSync(`/proc/${pid}`)).toBe(true)
    one.close()
    await untilTrue(() => !existsSync(`/proc/${pid}`), "the end of the program")
  })

  test("a shell over /api/terminal ends with its programs when it does not react to the end of the connection", async () => {
    const one = await shell()
    one.send("sleep 1000 & echo pid=$!=; kill -STOP $$\r")
    await one.seen(/pid=(\d+)=/)
    const pid = /pid=(\d+)=/.exec(one.text())?.[1] ?? ""
    one.close()
    await untilTrue(() => !existsSync(`/proc/${pid}`), "the end of the program")
  })

  test("a shell over /api/terminal closes the connection when the shell ends", async () => {
    const one = await shell()
    one.send("exit\r")
    expect(await one.closed).toContain("the shell has ended")
  })

  test("the person's token and cookie open it, the tools' token and no token do not", async () => {
    const byToken = await shell("", { authorization: `Bearer ${makeToken()}` })
    byToken.close()
    const cookie = await logIn(gateway, "/terminal/")
    const byCookie = await shell("", { cookie, origin: gateway.url })
    byCookie.close()
    expect(await connect("", { authorization: `Bearer ${API_TOKEN}` })).toBe(401)
    expect(await connect("", {})).toBe(401)
    expect(await connect(`?token=${makeControlToken()}`, {})).toBe(401)
  })

  test("a page of another site cannot open it with the person's cookie", async () => {
    const cookie = await logIn(gateway, "/terminal/")
    expect(await connect("", { cookie, origin: "https://evil.example" })).toBe(403)
  })

  test("an unknown id, a bad size and a plain request are refused", async () => {
    expect(await connect("?id=none", control())).toBe(404)
    expect(await connect("?cols=0", control())).toBe(400)
    const plain = await fetch(`${gateway.url}/api/terminal`, { headers: control() })
    expect(plain.status).toBe(426)
  })
})

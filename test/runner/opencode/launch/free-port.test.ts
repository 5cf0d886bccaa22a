/** The port of OpenCode when another program has it. */
import { afterEach, expect, test } from "bun:test"
import { choosePort } from "../../../../src/runner/opencode/launch/free-port.ts"

const servers: Bun.Server<undefined>[] = []
afterEach(() => servers.splice(0).forEach((server) => void server.stop(true)))

const taken = () => {
  const server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response("other") })
  servers.push(server)
  return server.port ?? 0
}
const processes = { listener: () => ({ pid: 7, command: "other program" }) }

test("if the default port is taken, OpenCode gets another one and the holder is reported once", async () => {
  const port = taken()
  const reported: object[] = []
  const url = new URL(`http://127.0.0.1:${port}`)
  const chosen = await choosePort(
    { url, isDefault: true, onTaken: (fact) => reported.push(fact) },
    processes,
  )
  expect(chosen).toBeGreaterThan(0)
  expect(chosen).toBeLessThan(32_768)
  expect(chosen).not.toBe(port)
  expect(reported).toEqual([{ port, by: "pid 7 (other program)" }])
})

test("port 0 gives a port that the kernel gives to no other program, on IPv4 and IPv6", async () => {
  for (const url of [new URL("http://127.0.0.1:0"), new URL("http://[::1]:0")]) {
    const choice = { url, isDefault: false, onTaken: () => {} }
    const chosen = await choosePort(choice, processes)
    expect(chosen).toBeGreaterThan(0)
    expect(chosen).toBeLessThan(32_768)
  }
})

test("a port that a person has chosen is not replaced: the error names its holder and what to do", async () => {
  const port = taken()
  const url = new URL(`http://127.0.0.1:${port}`)
  const failure = await choosePort({ url, isDefault: false, onTaken: () => {} }, processes).catch(
    String,
  )
  expect(failure).toContain(
    `port ${port} for OpenCode is in use by pid 7 (other program); stop that process or set OPENCODE_URL`,
  )
})

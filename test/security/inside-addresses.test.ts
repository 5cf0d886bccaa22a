/** Neither a tunnel nor an attachment reaches the servers of the sandbox itself. */
import { Database } from "bun:sqlite"
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { readFile } from "node:fs/promises"
import { join } from "node:path"
import { fetchFile, type MayFetch } from "../../src/runner/prompt/fetch-file.ts"
import { outsideAddress } from "../../src/lib/outside-address.ts"
import { api, startTestGateway } from "../runner/gateway/kit.ts"
import { repositoryRoot, startRunner, type TestRunner } from "../kit/runner.ts"
import { startTestSessionAgent, type TestSessionAgent } from "../kit/session-agent.ts"
import { startStopwatch } from "../kit/stopwatch.ts"

const failureOf = (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => "it was fetched",
    (error: unknown) => (error instanceof Error ? error.message : String(error)),
  )

const INSIDE = "its address is inside the sandbox or does not exist, and is not fetched"
const fetched = (url: string, mayFetch?: MayFetch) =>
  failureOf(fetchFile(url, 1024, new AbortController().signal, mayFetch))

describe("attachments", () => {
  let server: ReturnType<typeof Bun.serve>
  let requests = 0
  const hosts: (string | null)[] = []
  beforeAll(() => {
    server = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch: (request) => {
        requests += 1
        hosts.push(request.headers.get("host"))
        const { pathname } = new URL(request.url)
        if (pathname !== "/start") return new Response("a secret of the sandbox")
        return Response.redirect(`http://127.0.0.2:${server.port}/inside`, 302)
      },
    })
  })
  afterAll(() => server.stop(true))

  test.each([
    "127.0.0.1",
    "127.9.9.9",
    "localhost",
    "a.localhost",
    "0.0.0.0",
    "[::1]",
    "2130706433",
  ])("an attachment at http://%s is refused and never requested", async (host) => {
    requests = 0
    expect(await fetched(`http://${host}:${server.port}/`)).toBe(INSIDE)
    expect(requests).toBe(0)
  })

  test("an attachment that redirects to a loopback address is refused", async () => {
    requests = 0
    const isStart = ({ hostname }: URL) => hostname === "127.0.0.1"
    expect(await fetched(`http://127.0.0.1:${server.port}/start`, isStart)).toBe(INSIDE)
    expect(requests).toBe(1)
  })

  test.each([
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "169.254.169.254",
    "[fe80::1]",
    "[::]",
    "[64:ff9b::127.0.0.1]",
    "[64:ff9b::a9fe:a9fe]",
    "[fd00:ec2::254]",
    "[fd20:ce::254]",
    "168.63.129.16",
    "100.100.100.200",
    "192.0.0.192",
  ])("the address %s counts as inside", async (host) => {
    expect(await outsideAddress(new URL(`http://${host}/`))).toBe(false)
  })

  test.if(process.getuid?.() === 0)(
    "a server at the machine's own address outside loopback is not reached, also by a name that leads there",
    () => {
      const program = `
        import { fetchFile } from "${repositoryRoot}/src/runner/prompt/fetch-file.ts"
        import { outsideAddress } from "${repositoryRoot}/src/lib/outside-address.ts"
        const server = Bun.serve({ hostname: "0.0.0.0", port: 0, fetch: () => new Response("reached") })
        const rebound = (url) => outsideAddress(url, async () => ["198.51.100.7"])
        const get = (host, mayFetch) =>
          fetchFile("http://" + host + ":" + server.port + "/", 1024, new AbortController().signal, mayFetch)
            .then((bytes) => new TextDecoder().decode(bytes), (error) => error.message)
        console.log(JSON.stringify([
          await get("198.51.100.7", () => true), await get("198.51.100.7"), await get("rebound.example", rebound),
          await get("[2001:db8::7]"),
        ]))
        process.exit(0)`
      // A network of its own, with a second address on the loopback interface.
      const enter = `ip link set lo up && ip address add 198.51.100.7/32 dev lo && ip address add 2001:db8::7/128 dev lo nodad &&
        exec "$@"`
      const run = Bun.spawnSync(
        ["unshare", "--net", "sh", "-c", enter, "sh", process.execPath, "-e", program],
        { stderr: "pipe" },
      )
      expect(JSON.parse(run.stdout.toString() || JSON.stringify(run.stderr.toString()))).toEqual([
        "reached",
        INSIDE,
        INSIDE,
        INSIDE,
      ])
    },
  )

  test("a public address counts as outside", async () => {
    const addressOf = (url: string) => outsideAddress(new URL(url))
    expect(await addressOf("http://192.0.2.1/")).toEqual({ address: "192.0.2.1" })
    expect(await addressOf("http://[2001:db8::1]/")).toEqual({ address: "2001:db8::1" })
  })

  test("a name that has both an address of this machine and another one counts as inside", async () => {
    const url = new URL("http://rebound.example/")
    expect(await outsideAddress(url, async () => ["192.0.2.1", "127.0.0.1"])).toBe(false)
    expect(await outsideAddress(url, async () => [])).toBe(false)
  })

  test("an attachment is requested at the address that was checked, so a name that changes its address leads nowhere else", async () => {
    let lookups = 0
    const checked: MayFetch = () => {
      lookups += 1
      return { address: "127.0.0.1" }
    }
    // The name has no address in DNS: a second lookup would fail.
    const url = `http://rebound.invalid:${server.port}/`
    const bytes = await fetchFile(url, 1024, new AbortController().signal, checked)
    expect(new TextDecoder().decode(bytes)).toBe("a secret of the sandbox")
    expect(hosts.at(-1)).toBe(`rebound.invalid:${server.port}`)
    expect(lookups).toBe(1)
  })

  test("a data URL of 200 kB that is almost base64 is refused within 200 ms", async () => {
    const url = `data:text/plain;base64,${" ".repeat(200_000)}!`
    const workedMs = startStopwatch()
    expect(await failureOf(fetchFile(url, 1024 * 1024, new AbortController().signal))).toBe(
      "its data: URL is not base64",
    )
    expect(workedMs()).toBeLessThan(200)
  })
})

describe("tunnels", () => {
  test("a tunnel to a port of the runner itself is refused, also if it was stored before", async () => {
    const gateway = startTestGateway({
      reserved: () =>
        new Map([
          [4711, "the control server"],
          [4712, "the demo model"],
          [4713, "the VNC server"],
        ]),
      loadTunnels: () => JSON.stringify([{ name: "old", port: 4711, protocol: "auto" }]),
    })
    for (const port of [4711, 4712, 4713]) {
      const response = await api(gateway, "POST", "/tunnels", { name: "evil", port })
      expect(response.status).toBe(409)
    }
    expect(await (await api(gateway, "GET", "/tunnels")).json()).toEqual({ tunnels: [] })
    await gateway.stop()
  })

  let agent: TestSessionAgent
  let runner: TestRunner
  beforeAll(async () => {
    agent = startTestSessionAgent()
    // OpenCode is not needed here.
    runner = await startRunner(agent, {
      OPENCODE_BIN: "/bin/false",
      VNC_RAW_PORT: "45900",
      SANDBOX_CLOSED_PORTS: "42280",
    })
  })
  afterAll(async () => {
    await runner?.stop()
    await agent?.stop()
  })

  test("a runner refuses tunnels to its control server, to a moved VNC_RAW_PORT and to the ports of its platform", async () => {
    const { stateDir } = runner.sandbox
    const db = new Database(join(stateDir, "session/state.db"), { readonly: true })
    const fact = db
      .query<{ value: string }, []>("SELECT value FROM facts WHERE name = 'agent.api-token'")
      .get()
    db.close()
    const control = await readFile(join(stateDir, "session/control-url"), "utf8")
    for (const port of [Number(new URL(control).port), 45_900, 42_280]) {
      const response = await fetch(`${runner.gatewayUrl}/api/tunnels`, {
        method: "POST",
        headers: { authorization: `Bearer ${fact?.value.split(" ")[1]}` },
        body: JSON.stringify({ name: "evil", port }),
      })
      expect(response.status).toBe(409)
    }
  })
})

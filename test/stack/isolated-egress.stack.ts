/** The network policy of isolated local sandboxes: no direct way out, and a proxy outside that allows the listed hosts. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { networkInterfaces } from "node:os"
import { join } from "node:path"
import { type IsolatedPlace, openIsolated } from "./isolated-kit.ts"
import { until } from "./kit.ts"

let place: IsolatedPlace
let outside: Bun.TCPSocketListener
let host: ReturnType<typeof Bun.serve>
let ref = ""
const asked: string[] = []

beforeAll(async () => {
  // Stands for the network outside: the proxy of this machine, through which allowed requests go.
  outside = Bun.listen({
    hostname: "127.0.0.1",
    port: 0,
    socket: {
      data: (socket, bytes) => {
        asked.push(bytes.toString().split("\r\n", 1)[0] ?? "")
        socket.end("HTTP/1.1 200 OK\r\ncontent-length: 11\r\nconnection: close\r\n\r\nfrom beyond")
      },
    },
  })
  host = Bun.serve({ hostname: "0.0.0.0", port: 0, fetch: () => new Response("of the host") })
  const main = join(import.meta.dir, "../../src/main.ts")
  place = await openIsolated({
    egress: {
      argv: [process.execPath, main, "egress-proxy"],
      environment: { PATH: process.env["PATH"] ?? "" },
      via: `http://127.0.0.1:${outside.port}`,
      hosts: () => ["allowed.example"],
    },
  })
  ref = await place.start("policy")
})
afterAll(async () => {
  await place.end()
  outside.stop(true)
  await host.stop(true)
})

/** With the proxy of its environment, as programs use it. */
const open = (url: string) =>
  place.shell(
    ref,
    `python3 - <<'END'
import urllib.request, urllib.error
try:
    print(urllib.request.urlopen("${url}", timeout=20).read().decode())
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())
except Exception as error:
    print("failed:", error)
END`,
  )

test("an allowed host is reached through the proxy, and another one is refused with the reason", async () => {
  await until(
    async () => (await open("http://allowed.example/x")).text === "from beyond\n",
    "the proxy",
  )
  expect(asked.at(-1)).toStartWith("GET http://allowed.example")
  const before = asked.length
  const refused = await open("http://refused.example/x")
  expect(refused.text).toContain("403")
  expect(refused.text).toContain("does not allow refused.example:80")
  expect(asked).toHaveLength(before)
})

test("a sandbox with an allow-list has no way out but the proxy: no route, and no port of this machine", async () => {
  const own = await place.shell(ref, `exec 3<>/dev/tcp/127.0.0.1/${host.port} && echo connected`)
  expect(own.code).not.toBe(0)
  expect(own.text).not.toContain("connected")
  // The kernel is asked for the way, and no packet is sent: an address of documentation, and those of this machine.
  const machine = Object.values(networkInterfaces()).flatMap((list) =>
    (list ?? []).flatMap(({ family, address, internal }) =>
      family === "IPv4" && !internal ? [address] : [],
    ),
  )
  for (const address of ["198.51.100.7", ...machine]) {
    const way = await place.shell(ref, `ip route get ${address}`)
    expect(way.code).not.toBe(0)
    expect(way.text).toContain("unreachable")
  }
  const links = await place.shell(ref, "ip -o link show up")
  expect(links.text.trim().split("\n")).toEqual([expect.stringContaining(" lo: ")])
})

test("the sandbox cannot configure the interface, and the proxy ends with the sandbox", async () => {
  const up = await place.shell(ref, "ip link set eth0 up; ip addr add 10.9.9.9/24 dev eth0")
  expect(up.code).not.toBe(0)
  const port = Number((await place.shell(ref, 'echo "${http_proxy##*:}"')).text)
  const isOpen = async () => {
    try {
      await fetch(`http://127.0.0.1:${port}/`, { proxy: "" })
      return true
    } catch {
      return false
    }
  }
  expect(await isOpen()).toBe(true)
  await place.provider.terminate(ref)
  expect(await isOpen()).toBe(false)
})

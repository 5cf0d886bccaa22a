/** The egress policy: which hosts are allowed, what the proxy does with the others, and how the packet filter closes the rest. */
import { afterEach, describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import { join } from "node:path"
import { egressFinding } from "../../../src/cli/doctor-egress.ts"
import { type EgressProxy, startEgressProxy } from "../../../src/runner/host/egress-proxy.ts"
import {
  isAllowed,
  readProxyRequest,
  refusalNotice,
} from "../../../src/runner/host/egress-rules.ts"
import { readInvocation } from "../../../src/settings/settings.ts"
import { runToEnd } from "../../kit/run-to-end.ts"

const stops: (() => unknown)[] = []
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop()
})

describe("the allow-list", () => {
  test.each([
    ["example.com", "example.com", 443, true],
    ["example.com", "EXAMPLE.com.", 80, true],
    ["example.com", "evil-example.com", 443, false],
    ["example.com", "www.example.com", 443, false],
    ["*.example.com", "www.example.com", 443, true],
    ["*.example.com", "example.com", 443, false],
    ["*.example.com", "evilexample.com", 443, false],
    ["example.com:8443", "example.com", 443, false],
    ["example.com:8443", "example.com", 8443, true],
    ["10.0.0.5:80", "10.0.0.5", 80, true],
    ["[2001:db8::1]", "[2001:db8::1]", 443, true],
  ])("the entry %s and the host %s:%i give %p", (entry, host, port, allowed) => {
    expect(isAllowed([entry], host, port)).toBe(allowed)
  })

  test("an empty list allows no host", () => {
    fc.assert(fc.property(fc.domain(), fc.nat(65_535), (host, port) => !isAllowed([], host, port)))
  })

  test("no text makes the reader of proxy requests throw, and a header never starts a second request", () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), (target, line) => {
        const request = readProxyRequest(`GET http://a.example/${target} HTTP/1.1\r\nX: ${line}`)
        return request === undefined || !/\r\n\r\n./s.test(request.head)
      }),
    )
  })

  test("a host is announced once, and after twenty hosts a last message says that there are more", () => {
    expect(refusalNotice(new Set(), "evil.example", 443)).toContain("evil.example:443")
    expect(refusalNotice(new Set(["evil.example"]), "evil.example", 443)).toBeUndefined()
    const many = (count: number) => new Set(Array.from({ length: count }, (_, at) => `h${at}`))
    expect(refusalNotice(many(20), "x", 1)).toContain("more hosts")
    expect(refusalNotice(many(21), "x", 1)).toBeUndefined()
  })
})

describe("the proxy", () => {
  const start = async (hosts: readonly string[], via?: URL) => {
    const refused: string[] = []
    const server = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      fetch: (request) =>
        new Response(`${new URL(request.url).pathname} at ${request.headers.get("host")}`),
    })
    const proxy: EgressProxy = await startEgressProxy({
      port: 0,
      hosts,
      via,
      onRefused: (host, port) => void refused.push(`${host}:${port}`),
      addressOf: async () => ({ address: "127.0.0.1" }),
    })
    stops.push(proxy.stop, () => server.stop(true))
    const url = `http://127.0.0.1:${proxy.port}`
    const curl = (...args: readonly string[]) =>
      runToEnd(["curl", "-sS", "-i", "--max-time", "5", ...args], {
        env: { PATH: process.env["PATH"] ?? "", http_proxy: url, https_proxy: url },
      })
    return { curl, refused, port: server.port ?? 0, url }
  }

  test("an allowed host is reached by plain requests and through CONNECT, with its own name", async () => {
    const { curl, port, refused } = await start(["allowed.example"])
    const plain = await curl(`http://allowed.example:${port}/page`)
    expect(plain.out).toContain(`/page at allowed.example:${port}`)
    const tunnel = await curl("--proxytunnel", `http://allowed.example:${port}/inside`)
    expect(tunnel.out).toContain(`/inside at allowed.example:${port}`)
    expect(refused).toEqual([])
  })

  test("another host is refused with 403 and the reason, in both forms, and reported", async () => {
    const { curl, port, refused } = await start(["allowed.example"])
    const plain = await curl(`http://evil.example:${port}/`)
    expect(plain.out).toContain("403 Forbidden")
    expect(plain.out).toContain("SANDBOX_EGRESS_HOSTS")
    const tunnel = await curl("--proxytunnel", `http://evil.example:${port}/`)
    expect(tunnel.out).toContain("403 Forbidden")
    expect(refused).toEqual([`evil.example:${port}`, `evil.example:${port}`])
  })

  test("with a proxy of the machine, allowed requests go through it and others do not reach it", async () => {
    const outer = await start(["allowed.example"])
    const { curl, refused } = await start(["allowed.example"], new URL(outer.url))
    const answer = await curl("--proxytunnel", `http://allowed.example:${outer.port}/far`)
    expect(answer.out).toContain("/far at allowed.example")
    await curl(`http://evil.example:${outer.port}/`)
    expect(refused).toEqual([`evil.example:${outer.port}`])
    expect(outer.refused).toEqual([])
  })
})

/** Two network namespaces joined by a cable: in one the agent's user, in the other the outside. */
const namespaces = `
set -e
out=out$$
ip netns add $out
trap 'ip netns del $out' EXIT
ip link set lo up
ip link add v0 type veth peer name v1 netns $out
ip addr add 10.213.7.1/24 dev v0; ip link set v0 up
ip -n $out addr add 10.213.7.2/24 dev v1; ip -n $out link set v1 up; ip -n $out link set lo up
ip netns exec $out "$BUN" -e 'Bun.serve({hostname:"10.213.7.2",port:8080,fetch:()=>new Response("outside")})' & server=$!
until curl -sS --max-time 1 http://10.213.7.2:8080/ >/dev/null 2>&1; do sleep 0.1; done
as_agent() { setpriv --reuid 65534 --regid 65534 --clear-groups curl -sS --max-time 3 "$@" 2>&1 || true; }
echo "before: $(as_agent http://10.213.7.2:8080/)"
"$BUN" "$PROGRAM" & program=$!
until [ -e "$READY" ]; do sleep 0.1; done
echo "direct: $(as_agent http://10.213.7.2:8080/)"
echo "allowed: $(as_agent -x http://127.0.0.1:3999 http://10.213.7.2:8080/)"
echo "refused: $(as_agent -x http://127.0.0.1:3999 http://10.213.7.3:8080/)"
echo "root: $(curl -sS --max-time 3 http://10.213.7.2:8080/)"
kill $program $server; wait $program $server || true
`

/** Runs a script in a network of its own. `program`: what the script starts in it. `ready`: the file that says when. */
const runInNetwork = (script: string, program: string, ready: string) => {
  stops.push(() => Bun.spawnSync(["rm", "-f", ready, program]))
  const PATH = `${process.env["PATH"]}:/usr/sbin:/sbin`
  const env = { PATH, BUN: process.execPath, PROGRAM: program, READY: ready }
  return runToEnd(["unshare", "--net", "bash", "-c", script], { env })
}

const canFilter =
  process.getuid?.() === 0 &&
  ["iptables", "ip6tables", "ip", "unshare", "setpriv"].every((name) => Bun.which(name) !== null)

test.if(canFilter)(
  "with the packet filter the agent's user reaches allowed hosts through the proxy, and no host without it",
  async () => {
    const folder = join(import.meta.dir, "../../../")
    const ready = `/tmp/egress-ready-${process.pid}`
    const program = `/tmp/egress-program-${process.pid}.ts`
    await Bun.write(
      program,
      `import { closeFor } from "${folder}src/runner/host/egress-firewall.ts"
       import { startEgressProxy } from "${folder}src/runner/host/egress-proxy.ts"
       const result = await closeFor(65534)
       console.log("filter:", JSON.stringify(result), JSON.stringify(await closeFor(65534)))
       await startEgressProxy({ port: 3999, hosts: ["10.213.7.2:8080"], onRefused: () => {} })
       await Bun.write("${ready}", "")`,
    )
    const { out, err } = await runInNetwork(namespaces, program, ready)
    expect(err).toBe("")
    expect(out).toContain('filter: {"enforced":true} {"enforced":true}')
    expect(out).toContain("before: outside")
    expect(out).toMatch(/direct: .*(refused|Failed to connect|Couldn't connect)/)
    expect(out).toContain("allowed: outside")
    expect(out).toContain("refused: sandpiper: the network policy")
    expect(out).toContain("root: outside")
  },
  120_000,
)

/** A server of the platform on 2280 and one of the agent on 2281, on all addresses of the sandbox. */
const closedPorts = `
set -e
ip link set lo up
ip addr add 10.213.8.1/32 dev lo
"$BUN" -e 'for (const port of [2280, 2281]) Bun.serve({port,fetch:()=>new Response("port "+port)}); await Bun.write(process.env.READY, "")' & server=$!
trap 'kill $server' EXIT
until [ -e "$READY" ]; do sleep 0.1; done
as_agent() { setpriv --reuid 65534 --regid 65534 --clear-groups curl -sS --max-time 3 "$@" 2>&1 || true; }
echo "before: $(as_agent http://127.0.0.1:2280/)"
for policy in open allow-list; do
  POLICY=$policy "$BUN" "$PROGRAM"
  for address in 127.0.0.1 10.213.8.1 '[::1]'; do
    echo "$policy $address: $(as_agent "http://$address:2280/") and $(as_agent "http://$address:2281/")"
  done
done
echo "root: $(curl -sS --max-time 3 http://127.0.0.1:2280/)"
`

test.if(canFilter)(
  "with and without a policy the agent's user does not reach the ports of the sandbox's platform, and reaches others",
  async () => {
    const folder = join(import.meta.dir, "../../../")
    const ready = `/tmp/egress-ports-ready-${process.pid}`
    const program = `/tmp/egress-ports-program-${process.pid}.ts`
    await Bun.write(
      program,
      `import { joinEgress } from "${folder}src/runner/join-egress.ts"
       import { readInvocation } from "${folder}src/settings/settings.ts"
       const env = { SANDBOX_EGRESS: process.env.POLICY, SANDBOX_CLOSED_PORTS: "2280" }
       const say = (event) => console.log("log:", event)
       const egress = joinEgress({
         config: readInvocation(["doctor"], env, "/").settings,
         user: { name: "nobody", uid: 65534, gid: 65534, home: "/" },
         bootId: "boot",
         memory: { read: () => undefined, write: () => {} },
         send: () => {},
         log: { info: say, warn: say, error: say },
       })
       await egress.start()
       await egress.stop()`,
    )
    const { out, err } = await runInNetwork(closedPorts, program, ready)
    expect(err).toBe("")
    expect(out).toContain("before: port 2280")
    expect(out.match(/^log: .*/gm)).toEqual([
      "log: egress.ports-closed",
      "log: egress.enforced",
      "log: egress.allow-list",
    ])
    for (const policy of ["open", "allow-list"])
      for (const address of ["127.0.0.1", "10.213.8.1", "[::1]"]) {
        const line = out.split("\n").find((one) => one.startsWith(`${policy} ${address}:`))
        expect(line).toMatch(/: curl: \(7\) .* and port 2281$/)
      }
    expect(out).toContain("root: port 2280")
  },
  120_000,
)

test("doctor says which hosts are allowed and whether programs can ignore the policy", () => {
  const settingsOf = (environment: Record<string, string>) => {
    const invocation = readInvocation(["doctor"], environment, "/")
    if (invocation.want !== "command") throw new Error("unreachable")
    return invocation.settings
  }
  expect(egressFinding(settingsOf({}))).toEqual([])
  // Without further hosts the policy is the strictest one.
  const [strict] = egressFinding(settingsOf({ SANDBOX_EGRESS: "allow-list" }))
  expect(strict?.text).toContain("the agent may reach no host and the repositories")
  const [finding] = egressFinding(
    settingsOf({
      SANDBOX_EGRESS: "allow-list",
      SANDBOX_EGRESS_HOSTS: "github.com,*.npmjs.org",
      AGENT_USER: "root",
    }),
  )
  expect(finding?.verdict).toBe("warn")
  expect(finding?.text).toContain("github.com, *.npmjs.org")
  expect(finding?.text).toContain("can ignore HTTPS_PROXY")
})

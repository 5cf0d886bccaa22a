/** Requests, streams and WebSockets through the gateway, compared with nginx, haproxy, caddy and a direct connection. */
import { readFileSync } from "node:fs"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { freePort } from "../test/kit/free-port.ts"
import { percentile, say } from "./measure.ts"

interface Peer {
  readonly name: string
  readonly port: number
  readonly cookie: string
  /** The process whose CPU time counts; the direct connection has none. */
  readonly pid?: number
}

const ROUNDS = 5
const here = import.meta.dir
const directory = await mkdtemp(join(tmpdir(), "sandpiper-bench-"))
const children: Bun.Subprocess[] = []

const firstLine = async (stream: ReadableStream<Uint8Array>): Promise<string> => {
  let text = ""
  for await (const bytes of stream) {
    text += new TextDecoder().decode(bytes)
    if (text.includes("\n")) break
  }
  return text.split("\n", 1)[0] ?? ""
}

const start = (command: readonly string[]) => {
  const child = Bun.spawn([...command], { stdout: "pipe", stderr: "ignore", cwd: directory })
  children.push(child)
  return child
}

const untilResponds = async (port: number): Promise<void> => {
  for (let time = 0; time < 200; time += 1) {
    const response = await fetch(`http://127.0.0.1:${port}/vscode/x`).catch(() => undefined)
    if (response) return
    await Bun.sleep(25)
  }
  throw new Error(`no response on port ${port} within 5 s`)
}

/** Configures each proxy to do what the gateway does: strip the prefix, keep connections open, pass WebSockets. */
const configurations: Readonly<
  Record<
    string,
    (port: number, backend: number) => { file: string; text: string; command: string[] }
  >
> = {
  nginx: (port, backend) => ({
    file: "nginx.conf",
    text: `worker_processes 1; daemon off; master_process off; pid ${directory}/nginx.pid; error_log /dev/null;
events { worker_connections 4096; }
http {
  access_log off; client_body_temp_path ${directory}/b; proxy_temp_path ${directory}/p;
  fastcgi_temp_path ${directory}/f; uwsgi_temp_path ${directory}/u; scgi_temp_path ${directory}/s;
  upstream backend { server 127.0.0.1:${backend}; keepalive 64; keepalive_requests 100000000; }
  map $http_upgrade $connection_upgrade { default upgrade; '' ''; }
  server {
    listen 127.0.0.1:${port};
    keepalive_requests 100000000;
    location /vscode/ {
      proxy_pass http://backend/; proxy_http_version 1.1; proxy_max_temp_file_size 0; proxy_set_header X-Forwarded-For $remote_addr;
      proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $connection_upgrade;
    }
  }
}
`,
    command: ["nginx", "-c", join(directory, "nginx.conf")],
  }),
  haproxy: (port, backend) => ({
    file: "haproxy.cfg",
    text: `global
  nbthread 1
defaults
  mode http
  timeout client 60s
  timeout server 60s
  timeout connect 5s
  timeout tunnel 1h
  option forwardfor
frontend in
  bind 127.0.0.1:${port}
  default_backend out
backend out
  http-reuse always
  http-request replace-path /vscode/(.*) /\\1
  server backend 127.0.0.1:${backend}
`,
    command: ["haproxy", "-f", join(directory, "haproxy.cfg")],
  }),
  caddy: (port, backend) => ({
    file: "Caddyfile",
    text: `{
  admin off
  auto_https off
}
http://127.0.0.1:${port} {
  bind 127.0.0.1
  handle_path /vscode/* {
    reverse_proxy 127.0.0.1:${backend}
  }
}
`,
    command: ["caddy", "run", "--config", join(directory, "Caddyfile"), "--adapter", "caddyfile"],
  }),
}

/** CPU time that a process has used, in microseconds. The kernel counts in ticks of 10 ms. */
const cpuMicros = (pid: number): number => {
  const [, fields = ""] = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")
  const [user = 0, system = 0] = fields.split(" ").slice(11, 13).map(Number)
  return (user + system) * 10_000
}

const measure = async (
  kind: string,
  { port, cookie, pid }: Peer,
): Promise<Record<string, number>> => {
  const before = pid === undefined ? 0 : cpuMicros(pid)
  const child = Bun.spawn(
    [process.execPath, join(here, "sink/proxy-load.ts"), kind, String(port), cookie],
    {
      stdout: "pipe",
      stderr: "inherit",
    },
  )
  const result = JSON.parse(await firstLine(child.stdout)) as Record<string, number>
  await child.exited
  const used = pid === undefined ? Number.NaN : cpuMicros(pid) - before
  return { ...result, cpuPerRequest: used / (result["requests"] ?? Number.NaN) }
}

const peersOf = async (backend: number): Promise<readonly Peer[]> => {
  const ours = start([
    process.execPath,
    join(here, "../test/runner/gateway/serve.ts"),
    String(backend),
  ])
  const { port, cookie } = JSON.parse(await firstLine(ours.stdout)) as {
    port: number
    cookie: string
  }
  const peers: Peer[] = [{ name: "sandpiper", port, cookie, pid: ours.pid }]
  for (const [name, configure] of Object.entries(configurations)) {
    if (Bun.which(name) === null) {
      say(name, "not installed, skipped")
      continue
    }
    const peerPort = freePort()
    const { file, text, command } = configure(peerPort, backend)
    await writeFile(join(directory, file), text)
    const { pid } = start(command)
    await untilResponds(peerPort)
    peers.push({ name, port: peerPort, cookie, pid })
  }
  return peers
}

/** Alternates between the proxies, so that other load on the machine affects all of them. */
const compare = async (peers: readonly Peer[], kind: string, rounds: number) => {
  const results = new Map<string, Record<string, number>[]>()
  for (let round = 0; round < rounds; round += 1) {
    for (const peer of peers) {
      results.set(peer.name, [...(results.get(peer.name) ?? []), await measure(kind, peer)])
    }
  }
  return (name: string, field: string): number =>
    percentile(
      (results.get(name) ?? []).map((result) => result[field] ?? Number.NaN),
      0.5,
    )
}

const main = async () => {
  const backend = Number(
    await firstLine(start([process.execPath, join(here, "sink/proxy-backend.ts")]).stdout),
  )
  const peers = await peersOf(backend)
  const all: readonly Peer[] = [...peers, { name: "direct", port: backend, cookie: "" }]
  const ratio = (value: number, ours: number) => `(ours is ${(ours / value).toFixed(2)}x)`
  const table = async (
    kind: string,
    targets: readonly Peer[],
    title: string,
    unit: string,
    field: string,
    extra: (read: (field: string) => number) => string,
  ) => {
    const read = await compare(targets, kind, kind === "requests" ? ROUNDS : 3)
    for (const { name } of targets) {
      const value = read(name, field)
      const figures = `${value.toFixed(0)} ${unit}${extra((other) => read(name, other))}`
      say(
        `${title}: ${name}`,
        name === "sandpiper" ? figures : `${figures} ${ratio(value, read("sandpiper", field))}`,
      )
    }
  }
  await table("requests", all, "requests, 32 connections", "/s", "perSecond", (read) => {
    const cpu = read("cpuPerRequest")
    return `, p99 ${read("p99").toFixed(1)} ms${Number.isNaN(cpu) ? "" : `, CPU ${cpu.toFixed(1)} µs a request`}`
  })
  await table("stream", all, "64 MiB responses", "MB/s", "mbPerSecond", () => "")
  const trips = (read: (field: string) => number) =>
    `, 64 bytes round trip p50 ${read("p50").toFixed(0)} µs, p99 ${read("p99").toFixed(0)} µs`
  await table("sockets", all, "WebSocket, 1 MiB messages", "MB/s", "mbPerSecond", trips)
}

try {
  await main()
} finally {
  for (const child of children.toReversed()) child.kill()
  await Promise.all(children.map((child) => child.exited))
  await rm(directory, { recursive: true, force: true })
}

/** `https://github.com` for git in a test: a proxy that leads to a git host on loopback, over TLS and with passwords. */
import { createServer, connect } from "node:net"
import type { GitServer } from "./git-server.ts"
import { makeCertificate } from "./self-signed.ts"

export interface GithubHost {
  /** Options of git that lead to this host. */
  readonly options: readonly string[]
  /** The passwords that arrived for a repository, in order. */
  readonly passwords: (repository: string) => readonly string[]
  readonly stop: () => Promise<void>
}

/** `tokens`: the password of each repository; the repositories are those of `server`, which asks for none. */
export const startGithubHost = async (
  server: GitServer,
  tokens: Readonly<Record<string, string>>,
): Promise<GithubHost> => {
  const received = new Map<string, string[]>()
  const host = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    tls: makeCertificate("github.com"),
    fetch: async (request) => {
      const { pathname, search } = new URL(request.url)
      const repository = /^\/([\w-]+)\.git\//.exec(pathname)?.[1] ?? ""
      const basic = /^Basic (.+)$/.exec(request.headers.get("authorization") ?? "")?.[1]
      const password = basic === undefined ? undefined : atob(basic).split(":").slice(1).join(":")
      if (password !== undefined)
        received.set(repository, [...(received.get(repository) ?? []), password])
      if (password === undefined || password !== tokens[repository]) {
        const headers = { "www-authenticate": 'Basic realm="git"' }
        return new Response("who are you?", { status: 401, headers })
      }
      const headers = new Headers(request.headers)
      headers.delete("authorization")
      return fetch(`${server.origin}${pathname}${search}`, {
        method: request.method,
        headers,
        ...(request.method === "POST" && { body: await request.arrayBuffer() }),
      })
    },
  })
  const proxy = createServer((socket) => {
    socket.on("error", () => socket.destroy())
    socket.once("data", (head) => {
      if (!head.toString("latin1").startsWith("CONNECT github.com:443 ")) return socket.destroy()
      const onward = connect(host.port ?? 0, "127.0.0.1", () => {
        socket.write("HTTP/1.1 200 Connection established\r\n\r\n")
        socket.pipe(onward).pipe(socket)
      })
      onward.on("error", () => socket.destroy())
      return undefined
    })
  })
  const { promise: listening, resolve } = Promise.withResolvers<void>()
  proxy.listen(0, "127.0.0.1", resolve)
  await listening
  const address = proxy.address()
  const port = typeof address === "object" ? address?.port : undefined
  return {
    options: ["-c", `http.proxy=http://127.0.0.1:${port}`, "-c", "http.sslVerify=false"],
    passwords: (repository) => received.get(repository) ?? [],
    stop: async () => {
      proxy.close()
      await host.stop(true)
    },
  }
}

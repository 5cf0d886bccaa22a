/** A git host on loopback: `git http-backend` behind Basic authentication with one token for all repositories. */
import { mkdtemp, mkdir, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { runToEnd } from "./run-to-end.ts"

export interface GitServer {
  readonly origin: string
  /** The clone URL of a repository. */
  readonly url: (name: string) => string
  /** Every password received, in order. */
  readonly passwords: string[]
  /** Adds a commit to a branch (repository and branch are created on first use); resolves with the commit id. */
  readonly commit: (name: string, file: string, content: string, branch?: string) => Promise<string>
  readonly tag: (name: string, tag: string) => Promise<void>
  readonly stop: () => Promise<void>
}

export const startGitServer = async (token?: string): Promise<GitServer> => {
  const root = await mkdtemp(join(tmpdir(), "git-server-"))
  const bare = (name: string) => join(root, "bare", `${name}.git`)
  const work = (name: string) => join(root, "work", name)
  const passwords: string[] = []
  await mkdir(join(root, "bare"))
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: async (request) => {
      const basic = /^Basic (.+)$/.exec(request.headers.get("authorization") ?? "")?.[1]
      const password = basic === undefined ? undefined : atob(basic).split(":").slice(1).join(":")
      if (password !== undefined) passwords.push(password)
      if (token !== undefined && password !== token) {
        const headers = { "www-authenticate": 'Basic realm="git"' }
        return new Response("who are you?", { status: 401, headers })
      }
      return backend(join(root, "bare"), request)
    },
  })
  const origin = `http://127.0.0.1:${server.port}`
  const make = async (name: string) => {
    if (await Bun.file(join(bare(name), "HEAD")).exists()) return
    await run(root, "init", "--quiet", "--bare", "--initial-branch=main", bare(name))
    await run(root, "-C", bare(name), "config", "http.receivepack", "true")
    await run(root, "-C", bare(name), "config", "uploadpack.allowAnySHA1InWant", "true")
    await run(root, "clone", "--quiet", bare(name), work(name))
  }
  return {
    origin,
    url: (name) => `${origin}/${name}.git`,
    passwords,
    commit: async (name, file, content, branch = "main") => {
      await make(name)
      const at = work(name)
      const known = await run(at, "branch", "--list", branch)
      await run(at, "checkout", "--quiet", ...(known === "" ? ["-b"] : []), branch).catch(() => "")
      await writeFile(join(at, file), content)
      await run(at, "add", "--all")
      await run(at, "commit", "--quiet", "--message", `change ${file}`)
      await run(at, "push", "--quiet", "origin", branch)
      return run(at, "rev-parse", "HEAD")
    },
    tag: async (name, tag) => {
      await run(work(name), "tag", tag)
      await run(work(name), "push", "--quiet", "origin", tag)
    },
    stop: async () => {
      await server.stop(true)
      await rm(root, { recursive: true, force: true })
    },
  }
}

/** Serves one request with git's CGI program, which needs the content length in advance. */
const backend = async (root: string, request: Request): Promise<Response> => {
  const { pathname, search } = new URL(request.url)
  const body = new Uint8Array(await request.arrayBuffer())
  const child = Bun.spawn(["git", "http-backend"], {
    env: {
      PATH: process.env["PATH"] ?? "",
      GIT_PROJECT_ROOT: root,
      GIT_HTTP_EXPORT_ALL: "1",
      REMOTE_USER: "tester",
      PATH_INFO: pathname,
      QUERY_STRING: search.slice(1),
      REQUEST_METHOD: request.method,
      CONTENT_TYPE: request.headers.get("content-type") ?? "",
      CONTENT_LENGTH: String(body.length),
      HTTP_CONTENT_ENCODING: request.headers.get("content-encoding") ?? "",
      GIT_PROTOCOL: request.headers.get("git-protocol") ?? "",
    },
    stdin: body,
    stdout: "pipe",
    stderr: "ignore",
  })
  const answer = Buffer.from(await new Response(child.stdout).arrayBuffer())
  const split = answer.indexOf("\r\n\r\n")
  const head = answer.subarray(0, split).toString()
  const headers = new Headers()
  let status = 200
  for (const line of head.split("\r\n")) {
    const at = line.indexOf(":")
    const name = line.slice(0, at).toLowerCase()
    if (name === "status") status = Number.parseInt(line.slice(at + 1).trim(), 10)
    else headers.set(name, line.slice(at + 1).trim())
  }
  return new Response(answer.subarray(split + 4), { status, headers })
}

const run = async (cwd: string, ...args: readonly string[]): Promise<string> => {
  const { out, err, code } = await runToEnd(["git", ...args], {
    cwd,
    env: {
      PATH: process.env["PATH"] ?? "",
      HOME: cwd,
      GIT_CONFIG_NOSYSTEM: "1",
      GIT_AUTHOR_NAME: "Tester",
      GIT_AUTHOR_EMAIL: "tester@example.com",
      GIT_COMMITTER_NAME: "Tester",
      GIT_COMMITTER_EMAIL: "tester@example.com",
    },
  })
  if (code !== 0) throw new Error(`git ${args.join(" ")}: ${err}`)
  return out.trim()
}

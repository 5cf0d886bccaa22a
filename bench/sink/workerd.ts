/** The worker on workerd itself, with the flags of `wrangler.jsonc`: nothing of a development server stands before it. */
import { mkdtemp, rm } from "node:fs/promises"
import { join } from "node:path"
import { CLIENT_TOKEN } from "../../test/hub/kit/hub.ts"
import { freePort } from "../../test/hub/kit/free-port.ts"
import { readDeployment } from "../../test/hub/kit/workerd.ts"

export interface PlainWorkerd {
  readonly url: string
  readonly pid: number
  readonly stop: () => Promise<void>
}

const configOf = (port: number, flags: Awaited<ReturnType<typeof readDeployment>>) => `
using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "hub", worker = .hub),
    (name = "disk", disk = (path = "rows", writable = true, allowDotfiles = false)),
  ],
  sockets = [(name = "http", address = "127.0.0.1:${port}", http = (), service = "hub")],
);
const hub :Workerd.Worker = (
  modules = [(name = "worker.js", esModule = embed "worker.js")],
  compatibilityDate = "${flags.compatibility_date}",
  compatibilityFlags = ${JSON.stringify(flags.compatibility_flags)},
  durableObjectNamespaces = [
    (className = "SessionAgent", uniqueKey = "sessions", enableSql = true),
    (className = "SharedStore", uniqueKey = "shared-store", enableSql = true),
  ],
  durableObjectStorage = (localDisk = "disk"),
  bindings = [
    (name = "SESSIONS", durableObjectNamespace = "SessionAgent"),
    (name = "SHARED_STORE", durableObjectNamespace = "SharedStore"),
    (name = "CLIENT_TOKEN", text = "${CLIENT_TOKEN}"),
  ],
);
`

const answers = async (url: string): Promise<void> => {
  for (;;) {
    const health = await fetch(`${url}/health`).catch(() => undefined)
    if (health?.ok) return
    await Bun.sleep(20)
  }
}

/** The program that miniflare brings along. */
const program = async (): Promise<string> => {
  const found = Bun.resolveSync("workerd", Bun.resolveSync("miniflare", import.meta.dir))
  return ((await import(found)) as { default: string }).default
}

/** `rows` is the directory that its database files are made in. */
export const startPlainWorkerd = async (script: string, rows: string): Promise<PlainWorkerd> => {
  const folder = await mkdtemp(join(rows, "bench-workerd-"))
  const port = await freePort()
  await Bun.write(join(folder, "worker.js"), script)
  await Bun.write(join(folder, "config.capnp"), configOf(port, await readDeployment()))
  await Bun.write(join(folder, "rows", "keep"), "")
  const workerd = Bun.spawn([await program(), "serve", "config.capnp"], {
    cwd: folder,
    stdin: "ignore",
    stdout: "inherit",
    stderr: "inherit",
  })
  const url = `http://127.0.0.1:${port}`
  await answers(url)
  return {
    url,
    pid: workerd.pid,
    stop: async () => {
      workerd.kill("SIGKILL")
      await workerd.exited
      await rm(folder, { recursive: true, force: true })
    },
  }
}

/** Starts the worker on plain workerd with the flags of `wrangler.jsonc`, without the proxy of a development server. */
import { mkdtemp, rm } from "node:fs/promises"
import { join } from "node:path"
import { CLIENT_TOKEN } from "../../test/hub/kit/hub.ts"
import { freePort } from "../../test/kit/free-port.ts"
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
    (className = "Directory", uniqueKey = "directory", enableSql = true),
  ],
  durableObjectStorage = (localDisk = "disk"),
  bindings = [
    (name = "SESSIONS", durableObjectNamespace = "SessionAgent"),
    (name = "SHARED_STORE", durableObjectNamespace = "SharedStore"),
    (name = "DIRECTORY", durableObjectNamespace = "Directory"),
    (name = "CLIENT_TOKEN", text = "${CLIENT_TOKEN}"),
  ],
);
`

const untilHealthy = async (url: string): Promise<void> => {
  for (;;) {
    const health = await fetch(`${url}/health`).catch(() => undefined)
    if (health?.ok) return
    await Bun.sleep(20)
  }
}

/** The path of the workerd binary that miniflare depends on. */
const program = async (): Promise<string> => {
  const found = Bun.resolveSync("workerd", Bun.resolveSync("miniflare", import.meta.dir))
  return ((await import(found)) as { default: string }).default
}

/** `rows` is the parent directory of its database files. */
export const startPlainWorkerd = async (script: string, rows: string): Promise<PlainWorkerd> => {
  const folder = await mkdtemp(join(rows, "bench-workerd-"))
  const port = freePort()
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
  await untilHealthy(url)
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

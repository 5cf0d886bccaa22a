/** The Durable Objects on the real workerd: a test can put an object to sleep and restart the server. */
import { Database } from "bun:sqlite"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Miniflare } from "miniflare"
import { freePort } from "../../kit/free-port.ts"

export interface Workerd {
  readonly url: string
  readonly clientToken: string
  /** The object loses its memory; its WebSockets stay open. */
  readonly hibernate: (session?: string) => Promise<void>
  /** The same for the directory and its lobby. */
  readonly hibernateDirectory: () => Promise<void>
  /** Stops the server, and starts it again on the same port after `awayMs`. */
  readonly restart: (awayMs?: number) => Promise<void>
  /** Number of blobs of all sessions, read from the objects' database files. */
  readonly blobs: () => number
  /** Where the objects' database files are. */
  readonly folder: string
  readonly stop: () => Promise<void>
}

const CLIENT_TOKEN = "client-token-of-the-tests"
const HUB_ENCRYPTION_KEY = Buffer.alloc(32, 7).toString("base64")

/** A module with everything it imports, for workerd. */
export const bundleForWorkerd = async (file: string): Promise<string> => {
  const built = await Bun.build({ entrypoints: [file], target: "node", format: "esm" })
  const [output] = built.outputs
  if (!output) throw new Error(`the build of ${file} has no output`)
  return output.text()
}

export const bundleWorker = (): Promise<string> =>
  bundleForWorkerd(join(import.meta.dir, "../../../src/hub/hosts/durable/worker.ts"))

/** The flags of `wrangler.jsonc`: tests and benches run with the same ones as a deployment. */
export const readDeployment = async () =>
  Bun.JSONC.parse(await Bun.file(join(import.meta.dir, "../../../wrangler.jsonc")).text()) as {
    readonly compatibility_date: string
    readonly compatibility_flags: string[]
    readonly assets: {
      readonly directory: string
      readonly binding: string
      readonly html_handling: "none"
      readonly run_worker_first: boolean
    }
  }

/** A worker of a test's own, with one class of Durable Objects under the binding OBJECT. */
export const startTestWorker = async (file: string, className: string): Promise<Miniflare> => {
  const { compatibility_date, compatibility_flags } = await readDeployment()
  const worker = new Miniflare({
    modules: true,
    script: await bundleForWorkerd(file),
    cf: false,
    host: "127.0.0.1",
    compatibilityDate: compatibility_date,
    compatibilityFlags: compatibility_flags,
    durableObjects: { OBJECT: { className, useSQLite: true } },
  })
  await worker.ready
  return worker
}

export const startWorkerd = async (
  script: string,
  bindings: Readonly<Record<string, string>> = {},
  {
    page = false,
    services = {},
    below = tmpdir(),
  }: { page?: boolean; services?: Record<string, string>; below?: string } = {},
): Promise<Workerd> => {
  const folder = await mkdtemp(join(below, "workerd-"))
  const port = freePort()
  const { compatibility_date, compatibility_flags, assets } = await readDeployment()
  const launch = async () => {
    const started = new Miniflare({
      modules: true,
      script,
      port,
      host: "127.0.0.1",
      cf: false,
      compatibilityDate: compatibility_date,
      compatibilityFlags: compatibility_flags,
      durableObjects: {
        SESSIONS: { className: "SessionAgent", useSQLite: true },
        SHARED_STORE: { className: "SharedStore", useSQLite: true },
        DIRECTORY: { className: "Directory", useSQLite: true },
      },
      durableObjectsPersist: folder,
      ...(page && {
        assets: {
          workerName: "",
          directory: join(import.meta.dir, "../../..", assets.directory),
          binding: assets.binding,
          assetConfig: { html_handling: assets.html_handling },
          routerConfig: { has_user_worker: true, invoke_user_worker_ahead_of_assets: true },
        },
      }),
      // Service bindings to programs on this machine, by their host and port.
      serviceBindings: Object.fromEntries(
        Object.entries(services).map(([name, address]) => [
          name,
          { external: { address, http: {} } },
        ]),
      ),
      bindings: { CLIENT_TOKEN, HUB_ENCRYPTION_KEY, ...bindings },
    })
    await started.ready
    return started
  }
  let current = await launch()
  const evict = async (className: string, name: string): Promise<void> => {
    try {
      await current.unsafeEvictDurableObject("", className, { name, webSockets: "hibernate" })
    } catch (error) {
      // No frame has woken it since the last time: it sleeps already.
      if (!String(error).includes("not currently running")) throw error
    }
  }
  return {
    url: `http://127.0.0.1:${port}`,
    clientToken: CLIENT_TOKEN,
    folder,
    hibernate: (session = "s1") => evict("SessionAgent", session),
    hibernateDirectory: () => evict("Directory", ""),
    restart: async (awayMs = 0) => {
      await current.dispose()
      await Bun.sleep(awayMs)
      current = await launch()
    },
    blobs: () =>
      [...new Bun.Glob("**/*.sqlite").scanSync(folder)].reduce(
        (sum, file) => sum + blobsIn(join(folder, file)),
        0,
      ),
    stop: async () => {
      await current.dispose()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

const blobsIn = (file: string): number => {
  const db = new Database(file, { readonly: true })
  try {
    // The runtime writes at the same time, or recovers its log after a restart.
    db.run("PRAGMA busy_timeout = 30000")
    const tables = db.query("SELECT 1 FROM sqlite_master WHERE name = 'blobs'").all()
    return tables.length === 0 ? 0 : db.query("SELECT DISTINCT id FROM blobs").all().length
  } finally {
    db.close()
  }
}

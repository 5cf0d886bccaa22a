/** The Durable Objects on the real workerd: a test can put an object to sleep and restart the server. */
import { Database, SQLiteError } from "bun:sqlite"
import { existsSync, mkdtempSync } from "node:fs"
import { copyFile, mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Miniflare, type MiniflareOptions } from "miniflare"
import { freePort } from "../../kit/free-port.ts"
import { untilTrue } from "../../kit/until-true.ts"

export interface Workerd {
  readonly url: string
  readonly clientToken: string
  /** The object loses its memory; its WebSockets stay open. */
  readonly hibernate: (session?: string) => Promise<void>
  /** The same for the directory and its lobby. */
  readonly hibernateDirectory: () => Promise<void>
  /** Stops the server, and starts it again on the same port after `awayMs`. */
  readonly restart: (awayMs?: number) => Promise<void>
  /** Rows of a session, read from a copy of its object's database. */
  readonly rows: (session: string, query: string) => Promise<readonly unknown[]>
  /** Number of blobs of a session. */
  readonly blobs: (session: string) => Promise<number>
  /** Where the objects' database files are. */
  readonly folder: string
  readonly stop: () => Promise<void>
}

const CLIENT_TOKEN = "client-token-of-the-tests"
const HUB_ENCRYPTION_KEY = Buffer.alloc(32, 7).toString("base64")

/** Miniflare's types know it only with the types of the Workers runtime. */
interface Namespace {
  readonly idFromName: (name: string) => { readonly toString: () => string }
}

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

export interface TestWorker {
  readonly worker: Miniflare
  readonly stop: () => Promise<void>
}

/** Miniflare removes its temporary files without waiting for their end, so it gets a folder that `stop` removes. */
export const launchWorker = async (options: MiniflareOptions): Promise<TestWorker> => {
  const { TMPDIR } = process.env
  const folder = mkdtempSync(join(tmpdir(), "miniflare-"))
  // Its constructor reads the variable.
  process.env["TMPDIR"] = folder
  const worker = new Miniflare(options)
  if (TMPDIR === undefined) delete process.env["TMPDIR"]
  else process.env["TMPDIR"] = TMPDIR
  await worker.ready
  return {
    worker,
    stop: async () => {
      await worker.dispose()
      // A removal that meets Miniflare's own one can end too early.
      await untilTrue(async () => {
        await rm(folder, { recursive: true, force: true })
        return !existsSync(folder)
      }, "end of Miniflare's files")
    },
  }
}

/** A worker of a test's own, with one class of Durable Objects under the binding OBJECT. */
export const startTestWorker = async (file: string, className: string): Promise<TestWorker> => {
  const { compatibility_date, compatibility_flags } = await readDeployment()
  return launchWorker({
    modules: true,
    script: await bundleForWorkerd(file),
    cf: false,
    host: "127.0.0.1",
    compatibilityDate: compatibility_date,
    compatibilityFlags: compatibility_flags,
    durableObjects: { OBJECT: { className, useSQLite: true } },
  })
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
  const launch = () =>
    launchWorker({
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
  let current = await launch()
  const evict = async (className: string, name: string): Promise<void> => {
    try {
      await current.worker.unsafeEvictDurableObject("", className, {
        name,
        webSockets: "hibernate",
      })
    } catch (error) {
      // No frame has woken it since the last time: it sleeps already.
      if (!String(error).includes("not currently running")) throw error
    }
  }
  const rows: Workerd["rows"] = async (session, query) => {
    const sessions = (await current.worker.getDurableObjectNamespace(
      "SESSIONS",
    )) as unknown as Namespace
    const file = `${sessions.idFromName(session).toString()}.sqlite`
    const [found] = new Bun.Glob(`**/${file}`).scanSync(folder)
    return found === undefined ? [] : readCopy(join(folder, found), query)
  }
  return {
    url: `http://127.0.0.1:${port}`,
    clientToken: CLIENT_TOKEN,
    folder,
    hibernate: (session = "s1") => evict("SessionAgent", session),
    hibernateDirectory: () => evict("Directory", ""),
    restart: async (awayMs = 0) => {
      await current.stop()
      // Sleep: the server is away for as long as the test asks.
      await Bun.sleep(awayMs)
      current = await launch()
    },
    rows,
    blobs: async (session) => (await rows(session, "SELECT DISTINCT id FROM blobs")).length,
    stop: async () => {
      await current.stop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

/**
 * Reads a copy of the database and its log: a reader of the files themselves can lock out the runtime, which does not wait. A copy that
 * was made during a write may be unreadable, and a new database has no tables: both have no rows.
 */
const readCopy = async (file: string, query: string): Promise<readonly unknown[]> => {
  const folder = await mkdtemp(join(tmpdir(), "workerd-copy-"))
  const copy = join(folder, "copy.sqlite")
  try {
    for (const end of ["-wal", ""])
      if (existsSync(file + end)) await copyFile(file + end, copy + end)
    const db = new Database(copy)
    try {
      return db.query(query).all()
    } catch (error) {
      if (error instanceof SQLiteError) return []
      throw error
    } finally {
      db.close()
    }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

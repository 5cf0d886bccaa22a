/** The stage of the `/v1` tests as a process of its own, to measure its memory: prints its addresses, then serves. */
import { join } from "node:path"
import { startV1Stage } from "./kit.ts"

const binary = join(import.meta.dir, "../../../../dist/sandpiper")
const stage = await startV1Stage({}, [binary])
await stage.supervisor.address()
const { url } = stage.gateway
process.stdout.write(
  `${JSON.stringify({ url, root: stage.root, serverPid: stage.supervisor.pid() })}\n`,
)
await Bun.stdin.text()
await stage.stop()
process.exit(0)

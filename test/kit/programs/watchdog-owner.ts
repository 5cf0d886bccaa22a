/** An owner of a watchdog, in a process that a test can kill. Its arguments: folder, seconds, and the command of the watchdog. */
import { systemClock } from "../../../src/lib/clock.ts"
import { startWatchdog } from "../../../src/lib/watchdog.ts"
import { silentLog } from "../log.ts"

const [folder = "", seconds = "0", ...command] = process.argv.slice(2)
const watchdog = startWatchdog({
  folder,
  seconds: Number(seconds),
  command,
  environment: process.env,
  clock: systemClock,
  log: silentLog,
})
process.on("SIGTERM", () => {
  watchdog.release()
  process.exit(0)
})
process.stdout.write(
  `${JSON.stringify({ pid: watchdog.pid(), isSuccessor: watchdog.isSuccessor })}\n`,
)
await Bun.stdin.text()

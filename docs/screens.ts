/**
 * Makes the pictures in `docs/screens`: `npm run build`, then `bun docs/screens.ts [NAME...]`. With names (`live`, `queue`)
 * only these pictures are written. As root it mounts an empty `/home` that only the pictures see, so that they show the
 * project of a person and not a temporary path.
 */
import { join } from "node:path"

const HOME = "/home/ada"
const IN_HOME = 'mount -t tmpfs tmpfs /home && mkdir -p "$SCREENS_HOME/projects/shop" && exec "$@"'

const take = [process.execPath, join(import.meta.dir, "screens-take.ts"), ...process.argv.slice(2)]
const isRoot = process.getuid?.() === 0
const command = isRoot
  ? ["unshare", "--mount", "--propagation", "private", "sh", "-c", IN_HOME, "sh", ...take]
  : take
const taken = Bun.spawn(command, {
  env: { ...process.env, ...(isRoot && { SCREENS_HOME: HOME }) },
  stdio: ["inherit", "inherit", "inherit"],
})
process.exitCode = await taken.exited

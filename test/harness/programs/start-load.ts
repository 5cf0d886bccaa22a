/** Starts one busy loop of the processor and one of the disk, and says so. Ends only when it is killed. */
import { startLoad } from "../load.ts"

startLoad(1)
process.stdout.write("started\n")
setInterval(() => {}, 60_000)

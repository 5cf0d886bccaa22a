/**
 * A process that reaps and has children of its own, to be run as the first of a PID namespace: 200 children with exit codes
 * that differ and 200 orphans at the same time. Prints what came of them as JSON.
 */
import { execa } from "execa"
import { listProcesses } from "../../src/runner/host/processes.ts"
import { startReaper } from "../../src/runner/host/reaper.ts"
import { createLog } from "../../src/lib/log.ts"
import { createManualClock } from "./clock.ts"

const CHILDREN = 200
/** In this hand, so that scans follow one another with nothing in between: whatever may be taken too early, is. */
const clock = createManualClock()
const log = createLog({
  level: "warn",
  format: "json",
  secrets: [],
  write: (line) => void process.stderr.write(`${line}\n`),
  now: Date.now,
})
const reaper = startReaper({ clock, log })

const orphans = `for i in $(seq ${CHILDREN}); do (setsid sleep 0.$((i % 10)) &); done`
const makingOrphans = Bun.spawn(["sh", "-c", orphans]).exited
const codeOf = async (index: number): Promise<number | undefined> => {
  const script = `sleep 0.${index % 10}; exit ${index % 256}`
  if (index % 2 === 0) return Bun.spawn(["sh", "-c", script]).exited
  return (await execa("sh", ["-c", script], { reject: false })).exitCode
}

const codes = Array.from({ length: CHILDREN }, (_, index) => codeOf(index))
const scanThreeTimes = () => {
  for (let scan = 0; scan < 3; scan += 1) clock.advance(1000)
}
// A loop that is busy leaves the children that end meanwhile as zombies, just like orphans.
for (let round = 0; round < 10; round += 1) {
  const until = Date.now() + 100
  while (Date.now() < until);
  scanThreeTimes()
  await Bun.sleep(5)
}
const wrong = (await Promise.all(codes)).flatMap((code, index) =>
  code === index % 256 ? [] : [{ index, code }],
)
await makingOrphans
const zombies = () => listProcesses().filter(({ isZombie }) => isZombie).length
for (let tries = 0; tries < 200 && (zombies() > 0 || reaper.reaped() < CHILDREN); tries += 1) {
  scanThreeTimes()
  await Bun.sleep(20)
}
reaper.stop()
const report = {
  pid: process.pid,
  children: CHILDREN,
  wrong,
  reaped: reaper.reaped(),
  zombies: zombies(),
}
process.stdout.write(JSON.stringify(report))

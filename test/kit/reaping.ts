/**
 * A program to run as PID 1 of a namespace: it starts the reaper, 200 children with different exit codes and 200 orphans
 * at the same time, and prints the result as JSON. A wrong exit code means that the reaper took a child of Bun's.
 */
import { execa } from "execa"
import { listProcesses } from "../../src/runner/host/processes.ts"
import { startReaper } from "../../src/runner/host/reaper.ts"
import { createLog } from "../../src/lib/log.ts"
import { createManualClock } from "./clock.ts"
import { untilTrue } from "./until-true.ts"

const CHILDREN = 200
/** A manual clock makes scans follow each other without a pause, the worst case for reaping a child too early. */
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
// While the event loop is blocked, children that exit stay zombies, just like orphans.
for (let round = 0; round < 10; round += 1) {
  const until = Date.now() + 100
  while (Date.now() < until);
  scanThreeTimes()
  // Sleep: the event loop reads the exit codes of some children, not of all.
  await Bun.sleep(5)
}
const wrong = (await Promise.all(codes)).flatMap((code, index) =>
  code === index % 256 ? [] : [{ index, code }],
)
await makingOrphans
const zombies = () => listProcesses().filter(({ isZombie }) => isZombie).length
await untilTrue(
  () => {
    scanThreeTimes()
    return zombies() === 0 && reaper.reaped() >= CHILDREN
  },
  () => `end of all zombies: ${zombies()} are left, ${reaper.reaped()} were reaped,`,
)
reaper.stop()
const report = {
  pid: process.pid,
  children: CHILDREN,
  wrong,
  reaped: reaper.reaped(),
  zombies: zombies(),
}
process.stdout.write(JSON.stringify(report))

/** Started as a user without rights by isolated-unprivileged.stack.ts: uses an isolated sandbox and prints what it has seen. */
import { chmodSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import type { SandboxSpec } from "../../../src/fleet/providers/contract.ts"
import { createLocalProvider } from "../../../src/fleet/providers/local.ts"
import { probeMachine } from "../../../src/fleet/providers/local-machine.ts"
import { systemClock } from "../../../src/lib/clock.ts"

const root = process.argv[2] ?? ""
const self = join(root, "sleeper")
writeFileSync(self, "#!/bin/sh\nexec sleep 600\n")
chmodSync(self, 0o755)
const { isolation, findings } = await probeMachine(join(root, "probe"))
if (!isolation) throw new Error(JSON.stringify(findings))
const provider = createLocalProvider({
  root: join(root, "fleet"),
  self: [self],
  clock: systemClock,
  isolated: { isolation, programs: [self], variables: {}, hostPorts: () => [] },
})
const spec = (generation: number, snapshot?: string): SandboxSpec => ({
  session: "s",
  generation,
  name: `sp-s-${generation}`,
  labels: { deployment: "d", tenant: "t", session: "s", generation: String(generation) },
  image: snapshot === undefined ? { kind: "image", id: "-" } : { kind: "snapshot", id: snapshot },
  environment: {},
  volumes: [],
  ports: [],
  resources: {},
  idleMs: 1,
  lifeMs: 1,
})
const limit = () => AbortSignal.timeout(60_000)
const shell = (ref: string, script: string) =>
  provider.exec(ref, { argv: ["sh", "-c", script] }, limit())
const states: string[] = []
const look = async (ref: string) => {
  const seen = await provider.look(ref)
  states.push(seen.is === "ok" ? seen.value.state : seen.is)
}

const made = await provider.create(spec(1), limit())
if (made.is !== "ok") throw new Error(JSON.stringify(made))
await look("sp-s-1")
await shell("sp-s-1", "echo kept > /workspace/work.txt; rm -r /opt")
// A directory that its owner has closed, and a file without a name.
await shell(
  "sp-s-1",
  `mkdir /tmp/closed && head -c 4M /dev/zero > /tmp/closed/four && chmod 0 /tmp/closed
   sh -c 'exec 3>/tmp/three; rm /tmp/three; head -c 3M /dev/zero >&3; touch /tmp/ready; exec sleep 600' >/dev/null 2>&1 &
   until [ -e /tmp/ready ]; do sleep 0.02; done`,
)
const measured: number[] = []
for (const holds of [false, true])
  await provider.disks?.check("sp-s-1", { holds, limit: limit() }, ({ bytes }) => {
    measured.push(Math.round(bytes / 1024 / 1024))
    return "continue"
  })
const ended = await provider.disks?.check(
  "sp-s-1",
  { holds: true, limit: limit() },
  () => "end-agent",
)
const afterEnd = await shell(
  "sp-s-1",
  "chmod 700 /tmp/closed; pgrep -c -r R,S,D sleep; pgrep -c -r T .",
)
await provider.pause("sp-s-1")
await look("sp-s-1")
await provider.resume("sp-s-1", { idleMs: 1, lifeMs: 1 })
await look("sp-s-1")
const taken = await provider.snapshot("sp-s-1", "disk", limit())
await provider.terminate("sp-s-1")
await look("sp-s-1")
const again = await provider.create(spec(2, taken.is === "ok" ? taken.value.id : ""), limit())
const restored = await shell(
  "sp-s-2",
  "cat /workspace/work.txt; ls -d /opt; id -u; ls /proc | grep -c '^[0-9]'",
)
await provider.terminate("sp-s-2")
const left = readdirSync("/proc").filter((name) => {
  try {
    const text = /^\d+$/.test(name) ? readFileSync(`/proc/${name}/cmdline`, "utf8") : ""
    return text.includes(self) || text.includes(join(root, "fleet"))
  } catch {
    return false
  }
})
process.stdout.write(
  JSON.stringify({
    isolation,
    states,
    measured,
    ended: ended?.is,
    afterEnd: afterEnd.is === "ok" ? afterEnd.value.stdout : afterEnd.is,
    again: again.is,
    restored,
    left: left.length,
    uid: process.getuid?.(),
  }),
)

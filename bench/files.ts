/** 100 MB up and down with curl: through our gateway, and at sandbox-agent's own server. */
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { makeControlToken } from "../test/runner/gateway/kit.ts"
import { startV1Stage } from "../test/runner/sandbox/v1/kit.ts"
import { ms, say, spread } from "./measure.ts"
import { startSandboxAgent } from "./sink/sandbox-agent.ts"

const ROUNDS = 5

const local = await mkdtemp(join(tmpdir(), "bench-files-"))
const source = join(local, "source")
await Bun.$`head -c 100M /dev/urandom > ${source}`
const stage = await startV1Stage({}, [join(import.meta.dir, "../dist/sandpiper")])
const peer = await startSandboxAgent()

const ways: Readonly<Record<string, { readonly url: string; readonly token: string }>> = {
  "sandbox-agent's server": peer,
  "our gateway and server": { url: stage.gateway.url, token: makeControlToken() },
}
/** Undefined if the server refuses: sandbox-agent's does not take a body of this size. */
const timed = async (token: string, args: readonly string[]): Promise<number | undefined> => {
  const from = performance.now()
  const { exitCode } = await Bun.$`curl -sSf -H ${`authorization: Bearer ${token}`} ${args}`
    .quiet()
    .nothrow()
  return exitCode === 0 ? performance.now() - from : undefined
}
await Bun.$`cp ${source} ${join(peer.home, "bench-file")}`
const up = new Map<string, number[]>(Object.keys(ways).map((name) => [name, []]))
const down = new Map<string, number[]>(Object.keys(ways).map((name) => [name, []]))
for (let round = 0; round < ROUNDS; round += 1) {
  for (const [name, { url, token }] of Object.entries(ways)) {
    const address = `${url}/v1/fs/file?path=bench-file`
    const upTime = await timed(token, ["-o", "/dev/null", "-T", source, address])
    const downTime = await timed(token, ["-o", join(local, "back"), address])
    if (upTime !== undefined) up.get(name)?.push(upTime)
    if (downTime !== undefined) down.get(name)?.push(downTime)
  }
}
for (const [title, times] of [
  ["up", up],
  ["down", down],
] as const) {
  for (const [name, values] of times) {
    say(`100 MB ${title}, ${name}`, values.length === 0 ? "refused" : ms(spread(values)))
  }
}
await stage.stop()
await peer.stop()
await rm(local, { recursive: true, force: true })
process.exit(0)

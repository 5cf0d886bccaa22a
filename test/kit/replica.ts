/** A `serve` process of a test that is killed and started again at the same port. */
import { readFileSync } from "node:fs"
import { untilTrue } from "./until-true.ts"

export interface Replica {
  readonly port: number
  /** Resolves when it answers. Rejects at once with what it printed if it has ended by itself. */
  readonly untilUp: () => Promise<void>
  /** Kills it and starts another one at its port. */
  readonly restart: () => Promise<void>
  readonly kill: () => Promise<void>
}

const UP_MS = 120_000
const REQUEST_MS = 10_000

/** `spawn` starts the program with this file for its errors. */
export const startReplica = (
  port: number,
  errors: string,
  spawn: (errors: Bun.BunFile) => Bun.Subprocess,
): Replica => {
  let child = spawn(Bun.file(errors))
  const isUp = async (): Promise<boolean> => {
    if (child.exitCode !== null)
      throw new Error(`serve ended with ${child.exitCode}: ${readFileSync(errors, "utf8")}`)
    const limit = AbortSignal.timeout(REQUEST_MS)
    const answer = fetch(`http://127.0.0.1:${port}/health`, { signal: limit })
    return answer.then(
      ({ ok }) => ok,
      () => false,
    )
  }
  const kill = async () => {
    child.kill("SIGKILL")
    await child.exited
  }
  return {
    port,
    kill,
    untilUp: () => untilTrue(isUp, `replica that answers at port ${port}`, UP_MS),
    restart: async () => {
      await kill()
      child = spawn(Bun.file(errors))
    },
  }
}

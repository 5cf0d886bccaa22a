/** Starts a program to be attacked in a process of its own and asks its monitor how it is. */
import { join } from "node:path"
import type { Health } from "./monitor.ts"
import { measureSlowness } from "./slowness.ts"

export interface Target<Facts> {
  readonly facts: Facts
  readonly health: () => Promise<Health>
  /** Forgets the stalls so far: starting up is not under attack. */
  readonly reset: () => Promise<void>
  readonly isAlive: () => boolean
  readonly stop: () => Promise<void>
}

/** The program prints one line of JSON with `monitor` (a port) and its own facts. */
export const startTarget = async <Facts>(
  program: string,
  ...args: readonly string[]
): Promise<Target<Facts>> => {
  const child = Bun.spawn(
    [process.execPath, join(import.meta.dir, "../programs", program), ...args],
    { stdout: "pipe", stderr: "inherit" },
  )
  let text = ""
  for await (const bytes of child.stdout) {
    text += new TextDecoder().decode(bytes)
    if (text.includes("\n")) break
  }
  if (text === "") throw new Error(`${program} ended before it was ready`)
  const facts = JSON.parse(text) as Facts & { readonly monitor: number }
  const ask = async (method: string): Promise<Health> => {
    const response = await fetch(`http://127.0.0.1:${facts.monitor}/`, { method })
    return (await response.json()) as Health
  }
  return {
    facts,
    health: () => ask("GET"),
    reset: async () => void (await ask("DELETE")),
    isAlive: () => child.exitCode === null,
    stop: async () => {
      child.kill()
      await child.exited
    },
  }
}

/** The limits that every attack asserts. */
export const MAX_STALL_MS = 250

const ATTEMPTS = 3

/**
 * The longest stall of the target during the attack, in milliseconds of the machine on which the limit was set. One above the
 * limit is measured again: what an input causes is there again with the same seed; what the machine causes, whose host takes the
 * processor away, is not.
 */
export const stallDuring = async (
  target: Pick<Target<unknown>, "health" | "reset">,
  attack: () => Promise<void>,
): Promise<number> => {
  let least = Number.POSITIVE_INFINITY
  for (let attempt = 0; attempt < ATTEMPTS && least >= MAX_STALL_MS; attempt += 1) {
    await target.reset()
    await attack()
    const { maxStallMs } = await target.health()
    // Measured after each attempt: a machine can become slower.
    least = Math.min(least, maxStallMs / measureSlowness())
  }
  return least
}

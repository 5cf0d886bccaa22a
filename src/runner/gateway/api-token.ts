/**
 * The token that opens /api to the agent's tools, new at every boot. It outlives the runner: an OpenCode that the next
 * runner takes over in mid-turn carries it in its environment and must not be locked out.
 */
import { randomBytes } from "node:crypto"

export interface TokenMemory {
  readonly read: () => string | undefined
  readonly write: (text: string) => void
}

export const bootToken = (bootId: string, memory: TokenMemory): string => {
  const [boot, token] = (memory.read() ?? "").split(" ", 2)
  if (bootId !== "" && boot === bootId && token) return token
  const made = randomBytes(32).toString("hex")
  memory.write(`${bootId} ${made}`)
  return made
}

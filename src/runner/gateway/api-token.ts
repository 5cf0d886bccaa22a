/**
 * The API token of the agent's tools, new at every boot of the sandbox. It survives a restart of the runner, because an
 * OpenCode that the next runner adopts in mid-turn has it in its environment.
 */
import { randomBytes } from "node:crypto"

export interface TokenMemory {
  readonly read: () => string | undefined
  readonly write: (text: string) => void
}

/** An empty `bootId` means that boots cannot be told apart: the token is new every time. */
export const bootToken = (bootId: string, memory: TokenMemory): string => {
  const [boot, token] = (memory.read() ?? "").split(" ", 2)
  if (bootId !== "" && boot === bootId && token) return token
  const fresh = randomBytes(32).toString("hex")
  memory.write(`${bootId} ${fresh}`)
  return fresh
}

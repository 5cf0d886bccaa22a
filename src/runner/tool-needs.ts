/** What tools need from this machine and its settings, and what of it is not there. */
import type { Settings } from "../settings/settings.ts"
import type { Need } from "../wire/operations/tool-sets.ts"

export const missingNeeds = (settings: Settings): ReadonlySet<Need> => {
  const isInstalled = (program: string) =>
    Bun.which(program, { PATH: settings.environment["PATH"] ?? "" }) !== null
  const isThere: Readonly<Record<Need, boolean>> = {
    "parallel key": settings.parallelApiKey !== undefined,
    secrets: settings.secretsToken !== undefined || settings.secretsFile !== undefined,
    browser: isInstalled("agent-browser"),
    "parent session": settings.parentSessionId !== undefined,
    "setup session": settings.sessionKind === "setup",
  }
  const needs = Object.keys(isThere) as readonly Need[]
  return new Set(needs.filter((need) => !isThere[need]))
}

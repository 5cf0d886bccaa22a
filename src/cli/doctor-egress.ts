/** What `doctor` says about the agent's network: whether a policy is set, and whether it is enforced. */
import { firewallProblem } from "../runner/host/egress-firewall.ts"
import { chooseAgentUser } from "../runner/host/users.ts"
import type { Settings } from "../settings/settings.ts"

interface EgressFinding {
  readonly what: string
  readonly verdict: "ok" | "warn"
  readonly text: string
}

export const egressFinding = (settings: Settings): readonly EgressFinding[] => {
  if (settings.egress === "open") return []
  const isRoot = process.getuid?.() === 0
  const hasUser = findsUser(settings, isRoot)
  const problem = firewallProblem(isRoot, hasUser)
  const allowed = `the agent may reach ${settings.egressHosts.join(", ") || "no host"} and the repositories`
  const text =
    problem === undefined
      ? `${allowed}; the proxy and the packet filter enforce it`
      : `${allowed}; only the proxy enforces it, and a program can ignore HTTPS_PROXY, because ${problem}`
  return [{ what: "egress", verdict: problem === undefined ? "ok" : "warn", text }]
}

const findsUser = ({ agentUser }: Settings, isRoot: boolean): boolean => {
  try {
    return chooseAgentUser(agentUser, isRoot) !== undefined
  } catch {
    return false
  }
}

/**
 * Enforces the egress policy for programs that ignore the proxy: packet filter rules that let the agent's user reach this
 * machine only. Needs root, a user of the agent's own, and iptables.
 */
import { runCommand } from "../../lib/run-command.ts"

const CHAIN = "SANDPIPER_EGRESS"
const LIMIT_MS = 10_000
const PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
const programs = ["iptables", "ip6tables"] as const

export type Enforcement =
  | { readonly enforced: true }
  | { readonly enforced: false; readonly why: string }

/** Why the rules cannot be set here; undefined if they can, as far as can be seen without setting them. */
export const firewallProblem = (isRoot: boolean, hasUser: boolean): string | undefined => {
  if (!isRoot) return "the runner is not root"
  if (!hasUser) return "the agent has no user of its own (AGENT_USER)"
  const missing = programs.filter((name) => Bun.which(name, { PATH }) === null)
  return missing.length === 0 ? undefined : `${missing.join(" and ")} not installed`
}

type Rule = readonly [program: (typeof programs)[number] | "both", rule: string]

/** The rules of the policy. A resolver on loopback would carry data outside in its questions. */
const policy: readonly Rule[] = [
  ["both", "-p udp --dport 53 -j REJECT"],
  ["both", "-p tcp --dport 53 -j REJECT"],
  ["iptables", "-d 127.0.0.11/32 -j REJECT"],
  ["iptables", "-d 127.0.0.53/32 -j REJECT"],
  ["both", "-o lo -j RETURN"],
  ["both", "-j REJECT"],
]

export interface Closing {
  /** False: the network is open, and only the ports are closed. */
  readonly hasPolicy?: boolean
  /** Ports of this machine. Packets to any of its addresses leave through `lo`. */
  readonly ports?: readonly number[]
}

/** Idempotent: the rules of an earlier runner are replaced. */
export const closeFor = async (
  uid: number,
  { hasPolicy = true, ports = [] }: Closing = {},
): Promise<Enforcement> => {
  const rules: readonly Rule[] = [
    ...ports.map((port): Rule => ["both", `-o lo -p tcp --dport ${port} -j REJECT`]),
    ...(hasPolicy ? policy : []),
  ]
  for (const program of programs) {
    const run = (line: string) => runFilter(program, line)
    await run(`-N ${CHAIN}`)
    const steps = [
      `-F ${CHAIN}`,
      ...rules.flatMap(([of, rule]) =>
        of === "both" || of === program ? [`-A ${CHAIN} ${rule}`] : [],
      ),
    ]
    for (const step of steps) {
      const failure = await run(step)
      if (failure !== undefined) return { enforced: false, why: `${program}: ${failure}` }
    }
    const jump = `OUTPUT -m owner --uid-owner ${uid} -j ${CHAIN}`
    if ((await run(`-C ${jump}`)) === undefined) continue
    const failure = await run(`-I ${jump.replace("OUTPUT", "OUTPUT 1")}`)
    if (failure !== undefined) return { enforced: false, why: `${program}: ${failure}` }
  }
  return { enforced: true }
}

/** For a start without a policy after one with it. */
export const reopenFor = async (uid: number): Promise<void> => {
  for (const program of programs) {
    await runFilter(program, `-D OUTPUT -m owner --uid-owner ${uid} -j ${CHAIN}`)
    await runFilter(program, `-F ${CHAIN}`)
    await runFilter(program, `-X ${CHAIN}`)
  }
}

/** Undefined if it has worked. */
const runFilter = async (program: string, line: string): Promise<string | undefined> => {
  const args = ["-w", "5", ...line.split(" ")]
  const options = { env: { PATH }, timeoutMs: LIMIT_MS }
  const { exitCode, stderr } = await runCommand(program, args, options).catch((error: unknown) => ({
    exitCode: 1,
    stderr: String(error),
  }))
  return exitCode === 0 ? undefined : (stderr.trim().split("\n")[0] ?? "failed")
}

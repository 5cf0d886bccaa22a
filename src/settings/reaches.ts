/** Which processes may receive a variable of this process's environment. One answer for every process that is started. Pure. */
import { foreignVariables } from "./foreign-variables.ts"
import type { Environment, Setting } from "./setting.ts"
import { settingRows } from "./table.ts"

/**
 * - `agent`: OpenCode, its tools and its shells.
 * - `child`: the runners of child sessions on this machine.
 * - `sandbox`: the sandboxes that `serve` starts.
 * - `operator`: those of the operator's own sessions only.
 * - `image`: also sandboxes with an image of their own; without it the value is a path, a user or a program of this machine.
 */
export type Destination = "agent" | "child" | "sandbox" | "operator" | "image"

const settings: ReadonlyMap<string, Setting> = new Map(
  settingRows.map(([, setting]) => [setting.env, setting]),
)

/** Undefined: this program does not know the variable. */
const destinationsOf = (name: string): readonly Destination[] | undefined =>
  settings.get(name)?.reaches ?? foreignVariables.find(({ names }) => names.test(name))?.reaches

export const mayReach = (destination: Destination, name: string): boolean =>
  destinationsOf(name)?.includes(destination) ?? false

/** Its value is a path, a user or a program of this machine: an image has its own. */
const isOfThisMachine = (name: string): boolean =>
  (mayReach("sandbox", name) || mayReach("operator", name)) && !mayReach("image", name)

/** The environment of a sandbox that has an image of its own. */
export const imageEnvironment = (
  environment: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> => select(environment, (name) => !isOfThisMachine(name))

/** Set by the fleet, the image or the machine: a caller of the fleet cannot give it for a sandbox. */
export const isReserved = (name: string): boolean => {
  const setBy = settings.get(name)?.setBy
  return setBy === "fleet" || setBy === "image" || isOfThisMachine(name)
}

/** Settings of one sandbox: each has its own, so that they have no effect for `serve`. */
export const isOfOneSandbox = (name: string): boolean => {
  const setBy = settings.get(name)?.setBy
  return setBy === "fleet" || setBy === "session"
}

/** Repositories and ports are of one runner: AGENT_ENV_ALLOW lets them reach no other. */
const RESERVED = /^REPO_|_PORT$/

/** AGENT_ENV_ALLOW names it and no table has it: it goes on to every runner, for its agent. */
export const passesUnknown = (environment: Environment): ((name: string) => boolean) => {
  const allowed = allowedNames(environment)
  return (name) => allowed.has(name) && destinationsOf(name) === undefined && !RESERVED.test(name)
}

/** The environment of a child session's runner. */
export const childEnvironment = (environment: Environment): Record<string, string> => {
  const isUnknown = passesUnknown(environment)
  return select(environment, (name) => mayReach("child", name) || isUnknown(name))
}

/** The environment of the agent, its tools and its shells. `allow`: further names; settings of this program are never passed on. */
export const agentEnvironment = (
  environment: Environment,
  allow: readonly string[],
): Record<string, string> =>
  select(
    environment,
    (name) => mayReach("agent", name) || (allow.includes(name) && !settings.has(name)),
  )

export const select = (
  environment: Environment,
  isWanted: (name: string) => boolean,
): Record<string, string> =>
  Object.fromEntries(
    Object.entries(environment).flatMap(([name, value]) =>
      value !== undefined && isWanted(name) ? [[name, value]] : [],
    ),
  )

const allowedNames = (environment: Environment): ReadonlySet<string> =>
  new Set((environment["AGENT_ENV_ALLOW"] ?? "").split(",").map((name) => name.trim()))

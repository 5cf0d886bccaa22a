/** The local sandboxes of `serve`: as isolated as the settings ask and this machine allows, and a line that says so. */
import { existsSync, readFileSync } from "node:fs"
import { dirname, join } from "node:path"
import type { SandboxProvider } from "../fleet/providers/contract.ts"
import { createLocalProvider } from "../fleet/providers/local.ts"
import { watchForOrphans } from "../fleet/providers/local-orphans.ts"
import { loopbackPorts } from "../fleet/providers/local-isolated.ts"
import { type Machine, probeMachine } from "../fleet/providers/local-machine.ts"
import { childEnvironment } from "../settings/reaches.ts"
import { systemClock } from "../lib/clock.ts"
import { parseJson } from "../lib/json.ts"
import type { Log } from "../lib/log.ts"
import { selfCommand } from "../lib/self-command.ts"
import { knownProviders } from "../runner/broker/upstreams.ts"
import { findOpenCode, pathWithRipgrep } from "../runner/opencode/launch/binaries.ts"
import type { Settings } from "../settings/settings.ts"
import { SettingsError } from "../settings/settings-error.ts"
import { print } from "./command.ts"

type Variables = Readonly<Record<string, string>>

/** What the sandboxes need of this program: itself, OpenCode and ripgrep. */
const programsOf = (settings: Settings) => {
  const path = settings.environment["PATH"] ?? ""
  const search = { opencodeBin: settings.opencodeBin, path, self: process.execPath }
  const self = selfCommand()
  const [runtime = "", source] = self
  const repository = source === undefined ? [] : [join(dirname(source), "..")]
  const ripgrep = pathWithRipgrep({ ...search, path: "/usr/local/bin:/usr/bin:/bin" })
    .split(":")
    .filter((folder) => folder.includes("node_modules"))
  const opencode = findOpenCode(search)
  return {
    self,
    programs: [...new Set([runtime, ...repository, opencode, ...ripgrep])],
    variables: {
      OPENCODE_BIN: opencode,
      PATH: ["/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", ...ripgrep].join(":"),
    },
  }
}

const hostsOfUrls = (values: readonly (string | undefined)[]): readonly string[] =>
  values.flatMap((value) =>
    value !== undefined && /^https?:\/\//.test(value) && URL.canParse(value)
      ? [new URL(value).host]
      : [],
  )

/** Hosts that a sandbox with a network policy reaches: those of the policy, its repositories and the model providers. */
const egressHosts = (settings: Settings, environment: Variables): readonly string[] => {
  const listed: unknown = parseJson(environment["REPOS_JSON"] ?? "")
  const urls = Array.isArray(listed)
    ? listed.flatMap((one: unknown) =>
        typeof one === "object" && one !== null && "url" in one ? [String(one.url)] : [],
      )
    : []
  return [
    ...settings.egressHosts,
    ...hostsOfUrls([environment["REPO_URL"], ...urls]),
    ...hostsOfUrls(Object.values(knownProviders).map(({ baseUrl }) => baseUrl)),
    ...hostsOfUrls([settings.baseUrl, settings.environment["ANTHROPIC_BASE_URL"]]),
  ]
}

const machineProxy = (environment: Settings["environment"]): string | undefined =>
  ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"]
    .map((name) => environment[name])
    .find((value) => value?.startsWith("http://"))

/** The demo model's port is known after its start, so it is read when a sandbox starts. */
const demoPort = (stateDir: string): readonly number[] => {
  const file = join(stateDir, "demo-port")
  const port = existsSync(file) ? Number(readFileSync(file, "utf8")) : 0
  return Number.isInteger(port) && port > 0 ? [port] : []
}

const describe = ({ isolation, findings }: Machine, hasPolicy: boolean): string => {
  const lacks = findings.filter(({ isThere }) => !isThere)
  const state = !isolation
    ? "Sandboxes are not isolated from each other and from this machine"
    : `Sandboxes are isolated (disk: ${isolation.disk}, network: ${isolation.network})`
  const notes = lacks.map(({ part, text }) => `  ${part}: ${text}\n`)
  const policy =
    hasPolicy && isolation?.network !== "own"
      ? "  SANDBOX_EGRESS: only the proxy enforces it here, and a program can ignore the proxy\n"
      : ""
  return `${state}.\n${notes.join("")}${policy}`
}

/** The directory of the sandboxes. */
export const localRoot = (stateDir: string): string => join(stateDir, "fleet", "local")

/** `modelUrls`: the model endpoints in use, of which those on loopback are made reachable. */
export const createLocalSandboxes = async (
  settings: Settings,
  modelUrls: readonly string[],
  log: Log,
): Promise<SandboxProvider> => {
  // Before sandboxes are used: from here on the watchdog of a former `serve` ends none.
  const { leave } = watchForOrphans({
    root: localRoot(settings.stateDir),
    seconds: settings.sandboxOrphanSeconds,
    command: [...selfCommand(), "end-orphans", "sandboxes", "--state-dir", settings.stateDir],
    environment: settings.environment,
    clock: systemClock,
    log: log.child({ component: "watchdog" }),
  })
  try {
    return { ...(await createProvider(settings, modelUrls)), leave }
  } catch (error) {
    await leave()
    throw error
  }
}

const createProvider = async (
  settings: Settings,
  modelUrls: readonly string[],
): Promise<SandboxProvider> => {
  const root = localRoot(settings.stateDir)
  const base = { root, self: selfCommand(), clock: systemClock }
  if (settings.sandboxIsolation === "none") return createLocalProvider(base)
  const machine = await probeMachine(join(root, "probe"))
  const { isolation, findings } = machine
  const isRequired = settings.sandboxIsolation === "required"
  if (isRequired && isolation?.network !== "own") {
    const reasons = findings.filter(({ isThere }) => !isThere).map(({ text }) => text)
    throw new SettingsError(
      `SANDBOX_ISOLATION is required, and this machine does not allow it: ${reasons.join("; ")}`,
    )
  }
  const hasPolicy = settings.egress !== "open"
  print(describe(machine, hasPolicy))
  if (!isolation) return createLocalProvider(base)
  const { self, programs, variables } = programsOf(settings)
  const environment = childEnvironment(settings.environment)
  return createLocalProvider({
    ...base,
    self,
    isolated: {
      isolation,
      programs,
      variables,
      hostPorts: () => [
        ...settings.sandboxHostPorts,
        ...loopbackPorts([...modelUrls, ...Object.values(environment)]),
        ...demoPort(settings.stateDir),
      ],
      egress:
        hasPolicy && isolation.network === "own"
          ? {
              argv: [...self, "egress-proxy"],
              environment: { PATH: "/usr/bin:/bin" },
              via: machineProxy(settings.environment),
              hosts: (variablesOfBox) => egressHosts(settings, variablesOfBox),
            }
          : undefined,
    },
  })
}

/**
 * Isolated sandboxes on this machine: a disk of layers, namespaces by bubblewrap, and a network of their own by pasta. The
 * processes are those of a user without rights, and what they see of this machine is listed in local-box.ts.
 */
import {
  chownSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs"
import { join } from "node:path"
import { type Clock, sleep } from "../../lib/clock.ts"
import { freePort } from "../../lib/free-port.ts"
import { imageEnvironment } from "../../settings/reaches.ts"
import { withoutScreen } from "../core/shared-screen.ts"
import {
  asRootOfNamespace,
  BOX_UID,
  type BoxBind,
  boxArguments,
  type BoxPlan,
  type BoxUsers,
  type DiskKind,
  exportScript,
  launchCommand,
  mountTableOf,
  readyPipeOf,
  runnerRights,
} from "./local-box.ts"
import { execLocally } from "./local-exec.ts"
import { isolatedMeasure } from "./local-isolated-measure.ts"
import { openLayers, removeDisk } from "./local-layers.ts"
import { writeMounts } from "./local-mounts.ts"
import { removeTree } from "./local-drafts.ts"
import {
  isAlive,
  killLaunchers,
  namespaceInit,
  namespaceMembers,
  parentOf,
  withoutRunner,
} from "./local-processes.ts"
import { type Box, type BoxMode, missing, REPORT, reportFolderOf } from "./local-record.ts"

export interface Isolation {
  readonly disk: DiskKind
  /** `shared`: the network of this machine, with every port of its loopback. */
  readonly network: "own" | "shared"
  /** The user of this machine whose processes they are, if the fleet is root. */
  readonly becomes: number | undefined
  readonly users: BoxUsers
}

export interface IsolatedModeOptions {
  readonly root: string
  readonly self: readonly string[]
  readonly clock: Clock
  readonly isolation: Isolation
  readonly hasLimits: boolean
  /** Files and directories outside /usr that the sandboxes may read, at the same path. */
  readonly programs: readonly string[]
  /** Variables that every sandbox gets. */
  readonly variables: Readonly<Record<string, string>>
  /** Ports of this machine's loopback that the sandboxes may reach, beside the one of the session agent. */
  readonly hostPorts: () => readonly number[]
  /**
   * Present: sandboxes reach no network but through this program, which runs outside them. It reads its port and the
   * allowed hosts as JSON from standard input.
   */
  readonly egress?:
    | {
        readonly argv: readonly string[]
        readonly environment: Readonly<Record<string, string>>
        /** This machine's own proxy. */
        readonly via: string | undefined
        readonly hosts: (environment: Readonly<Record<string, string>>) => readonly string[]
      }
    | undefined
}

const WORKSPACE = "/workspace"
/** Where a sandbox reads what the fleet tells it. */
const TOLD = "/run/sandpiper"
const PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
const RESOLVER = "169.254.53.53"
const variablesOfAgent = { HOME: "/home/agent", USER: "agent", LOGNAME: "agent" }
const variablesOfRunner = { HOME: "/root", USER: "root", LOGNAME: "root", AGENT_USER: "agent" }
const START_MS = 30_000
const START_POLL_MS = 2
const MOST_NAME = 250
const isLoopback = (host: string) => /^(?:127\.[\d.]+|localhost|\[?::1\]?)$/.test(host)

/** The ports of URLs that lead to this machine's loopback. */
export const loopbackPorts = (values: readonly (string | undefined)[]): readonly number[] =>
  values.flatMap((value) => {
    if (value === undefined || !URL.canParse(value)) return []
    const { hostname, port, protocol } = new URL(value)
    if (!isLoopback(hostname)) return []
    return [Number(port || (/^(?:https|wss):$/.test(protocol) ? 443 : 80))]
  })

/** A resolver on loopback does not exist in the sandbox's network. */
const needsResolver = (): boolean => {
  const text = existsSync("/etc/resolv.conf") ? readFileSync("/etc/resolv.conf", "utf8") : ""
  const servers = [...text.matchAll(/^nameserver\s+(\S+)/gm)].map(([, address = ""]) => address)
  return servers.length > 0 && servers.every(isLoopback)
}

/** The layers that a sandbox needs, and the one that its disk may already have become. */
const layersOf = ({ layers, ending }: Box): readonly string[] => [
  ...layers,
  ...(ending ? [ending.id] : []),
]

/** The last line, but not pasta's: it reports that nothing reads its pipe any more if the sandbox ends while it starts. */
const reasonIn = (file: string): string =>
  existsSync(file)
    ? (readFileSync(file, "utf8")
        .trim()
        .split("\n")
        .findLast((line) => !line.startsWith("PID file write")) ?? "")
    : ""

/** The command by which a user without root reads all files of its sandboxes. */
const asOwner = (users: BoxUsers): readonly string[] =>
  users === "two" ? asRootOfNamespace : ["unshare", "--user", "--map-root-user", "--"]

export const isolatedMode = (options: IsolatedModeOptions): BoxMode => {
  const { root, self, clock, isolation } = options
  const { becomes } = isolation
  const within = becomes === undefined && isolation.users === "two" ? asRootOfNamespace : []
  const layers = openLayers(join(root, "isolated"), becomes, within)
  const volumesFolder = join(root, "isolated", "volumes")
  mkdirSync(volumesFolder, { recursive: true, mode: 0o700 })
  const folderOf = (name: string) => join(root, "boxes", name)
  const diskOf = (name: string) => join(folderOf(name), "disk")
  const resolverFile = join(root, "isolated", "resolv.conf")
  const hasResolver = isolation.network === "own" && !options.egress && needsResolver()
  if (hasResolver) writeFileSync(resolverFile, `nameserver ${RESOLVER}\n`, { mode: 0o644 })

  const readOnly = (path: string): BoxBind => ({
    source: path,
    target: path,
    isDirectory: statSync(path).isDirectory(),
    isReadOnly: true,
  })
  const programs = options.programs.filter((path) => !path.startsWith("/usr/")).map(readOnly)

  const environmentOf = (box: Box): Record<string, string> => {
    const proxy = `http://127.0.0.1:${box.proxyPort}`
    const direct = "127.0.0.1,localhost,::1"
    return {
      ...imageEnvironment(box.environment),
      PATH,
      ...(isolation.users === "two" ? variablesOfRunner : variablesOfAgent),
      SHELL: "/bin/bash",
      ...options.variables,
      ...(box.proxyPort !== undefined && {
        SANDBOX_EGRESS_BOUNDARY: "1",
        HTTP_PROXY: proxy,
        HTTPS_PROXY: proxy,
        http_proxy: proxy,
        https_proxy: proxy,
        NO_PROXY: direct,
        no_proxy: direct,
      }),
      ...(isolation.network === "shared" && {
        SANDPIPER_SERVICES: withoutScreen(box.environment["SANDPIPER_SERVICES"] ?? "none"),
      }),
      WORK_DIR: WORKSPACE,
      SANDPIPER_STATE_DIR: "/var/lib/sandpiper",
      SANDPIPER_OWN_DISK: "1",
      SANDBOX_DISK_FILE: join(TOLD, REPORT),
      GATEWAY_HOST: "127.0.0.1",
      GATEWAY_PORT: String(box.port),
      OPENCODE_URL: "http://127.0.0.1:0",
    }
  }

  /**
   * Of a command beside the runner: without the variables of the runner. They contain its secrets, and the agent, who is the same
   * user, can read the environment of a process that has not closed it.
   */
  const commandEnvironmentOf = (box: Box) => {
    const session = box.environment["SESSION_ID"]
    return environmentOf({
      ...box,
      environment: session === undefined ? {} : { SESSION_ID: session },
    })
  }

  /** Names contain ids of sessions, which may have any character. */
  const volumeFolder = (name: string): string | undefined => {
    const file = encodeURIComponent(name)
    const isName = file !== "" && file !== "." && file !== ".." && file.length <= MOST_NAME
    return isName ? join(volumesFolder, file) : undefined
  }

  const mountsOf = (name: string) => join(folderOf(name), "mounts")
  const planOf = (box: Box, joinGroup: string | undefined): BoxPlan => ({
    join: joinGroup,
    mounts: mountsOf(box.name),
    disk: diskOf(box.name),
    diskKind: box.disk,
    layers: layers.pathsOf(box.layers),
    binds: [
      ...programs,
      ...(hasResolver ? [{ ...readOnly(resolverFile), target: "/etc/resolv.conf" }] : []),
      ...box.volumes.map((volume) => ({
        source: volumeFolder(volume.name) ?? "",
        target: volume.path,
        isDirectory: true,
        isReadOnly: volume.readOnly,
      })),
      {
        source: reportFolderOf(folderOf(box.name)),
        target: TOLD,
        isDirectory: true,
        isReadOnly: true,
      },
    ],
    network:
      isolation.network === "shared"
        ? undefined
        : {
            inbound: [box.port],
            outbound: [
              ...new Set([
                ...loopbackPorts([box.environment["DO_WS_URL"]]),
                ...options.hostPorts(),
                ...(box.proxyPort === undefined ? [] : [box.proxyPort]),
              ]),
            ],
            isDirect: options.egress === undefined,
            dnsForward: hasResolver ? RESOLVER : undefined,
          },
    becomes,
    users: isolation.users,
    environment: environmentOf(box),
    cwd: WORKSPACE,
    command: [...self, "run"],
  })

  const killLaunchersOf = (box: Box) => {
    const place = { mounts: mountsOf(box.name) }
    killLaunchers(mountTableOf(place), readyPipeOf(place))
  }
  const initOf = (box: Box): number | undefined =>
    box.process && isAlive(box.process) ? namespaceInit(box.process.pid) : undefined

  /** Of the running sandbox: one that an earlier version has started is of one user. */
  const usersOf = (init: number): BoxUsers =>
    /^\s*0\s/.test(readFileSync(`/proc/${init}/uid_map`, "utf8")) ? "two" : "one"

  /** The command that runs another one in the namespaces of a sandbox, as the agent's user or, where it is another, the runner's. */
  const enterCommand = (init: number, users: BoxUsers, isRunner: boolean): readonly string[] => {
    const spaces = ["--user", "--mount", "--pid", "--ipc", "--uts"]
    const network = isolation.network === "own" ? ["--net"] : []
    const enter = ["nsenter", "--target", String(init), ...spaces, ...network]
    const as = (uid: number) => ["--setuid", String(uid), "--setgid", String(uid), "--"]
    if (users === "two" && isRunner) {
      const rights = ["-all", ...runnerRights.map((right) => `+${right}`)].join(",")
      return [...enter, ...as(0), "setpriv", "--no-new-privs", "--bounding-set", rights]
    }
    if (users === "two" || becomes !== undefined) return [...enter, ...as(BOX_UID)]
    // Only the owner of the outer user namespace, in which bubblewrap runs, may enter the others.
    const outer = ["nsenter", "--target", String(parentOf(init)), "--user"]
    return [...outer, "--preserve-credentials", "--", ...enter, "--preserve-credentials", "--"]
  }

  const makeVolume = (name: string) => {
    const folder = volumeFolder(name)
    if (folder === undefined) return
    mkdirSync(folder, { recursive: true, mode: 0o755 })
    if (becomes !== undefined) chownSync(folder, becomes, becomes)
  }

  const prepare: BoxMode["prepare"] = async (spec, box) => {
    const bad = spec.volumes.find(
      ({ name, path }) => volumeFolder(name) === undefined || !path.startsWith("/"),
    )
    if (bad) return { is: "refused", why: `${bad.name} at ${bad.path} is not a volume` }
    const snapshot = spec.image.kind === "image" ? undefined : spec.image.id
    if (snapshot !== undefined && !layers.hasSnapshot(snapshot)) return missing
    const used = await layers.createDisk(diskOf(box.name), isolation.disk, snapshot)
    if (!used) return missing
    for (const { name } of spec.volumes) makeVolume(name)
    return {
      is: "ok",
      value: {
        disk: isolation.disk,
        layers: [...used],
        sharedLayers:
          (spec.image.kind === "snapshot" && snapshot !== undefined
            ? layers.sharedOf(snapshot)
            : undefined) ?? used.length,
        volumes: spec.volumes.map(({ name, path, readOnly: fixed }) => ({
          name,
          path,
          readOnly: fixed === true,
        })),
        ...(options.egress && { proxyPort: freePort() }),
      },
    }
  }

  const measured = isolatedMeasure({
    clock,
    within: becomes === undefined ? asOwner(isolation.users) : [],
    folderOf,
    volumesOf: ({ volumes }) =>
      volumes.flatMap(({ name, path, readOnly: fixed }) => {
        const folder = volumeFolder(name)
        return fixed || folder === undefined ? [] : [{ folder, path }]
      }),
    layersOf: (box) => {
      const paths = layers.pathsOf(box.layers)
      const own = paths.length - (box.sharedLayers ?? paths.length)
      return { own: paths.slice(0, own), shared: paths.slice(own) }
    },
    enter: (box) => {
      const init = initOf(box)
      return init === undefined ? undefined : enterCommand(init, usersOf(init), true)
    },
  })

  return {
    kind: "isolated",
    can: { volumes: true, limits: options.hasLimits },
    prepare,
    launch: (box, joinGroup) => {
      // Without a group, a pasta whose launcher was killed has not been found and holds the ports.
      if (joinGroup === undefined) killLaunchersOf(box)
      const plan = planOf(box, joinGroup)
      mkdirSync(reportFolderOf(folderOf(box.name)), { recursive: true, mode: 0o755 })
      writeMounts(plan)
      const input = join(folderOf(box.name), "bwrap.args")
      writeFileSync(input, boxArguments(plan), { mode: 0o600 })
      // Nothing of the sandbox's environment: these programs run outside it.
      return { argv: launchCommand(plan), cwd: "/", environment: { PATH }, input }
    },
    helpers: (box) => {
      const { egress } = options
      if (!egress || box.proxyPort === undefined) return []
      const input = join(folderOf(box.name), "egress.json")
      const order = { port: box.proxyPort, hosts: egress.hosts(box.environment), via: egress.via }
      writeFileSync(input, JSON.stringify(order), { mode: 0o600 })
      return [{ argv: egress.argv, cwd: "/", environment: egress.environment, input }]
    },
    untilStarted: async (box) => {
      const until = clock.now() + START_MS
      while (initOf(box) === undefined) {
        if (!box.process || !isAlive(box.process))
          return `the sandbox has not started: ${reasonIn(join(folderOf(box.name), "runner.log"))}`
        if (clock.now() > until) return "the sandbox has not started in time"
        await sleep(clock, START_POLL_MS)
      }
      rmSync(join(folderOf(box.name), "bwrap.args"), { force: true })
      return undefined
    },
    exec: async (box, { argv: [program = "", ...rest], cwd, environment }, limit, prefix) => {
      const init = initOf(box)
      if (init === undefined)
        return { is: "unknown", why: "the sandbox has no process that a command could join" }
      const users = usersOf(init)
      const isRunner = program === "sandpiper"
      const own = users === "two" && isRunner ? variablesOfRunner : variablesOfAgent
      const script = '. /dev/stdin; cd "$1" && shift && exec "$@" </dev/null'
      return execLocally({
        argv: [
          ...prefix,
          ...enterCommand(init, users, isRunner),
          "/bin/sh",
          "-c",
          script,
          "sh",
          cwd ?? WORKSPACE,
          ...(isRunner ? [...self, ...rest] : [program, ...rest]),
        ],
        cwd: "/",
        environment: { PATH },
        input: exportScript({ ...commandEnvironmentOf(box), ...own, ...environment }),
        limit,
      })
    },
    measure: measured.measure,
    // Those outside its namespace start it, or serve its disk and its network.
    programsOf: (box, _members, sparesAgent) => {
      const init = initOf(box)
      return init === undefined ? [] : withoutRunner(namespaceMembers(init), init, sparesAgent)
    },
    takeSnapshot: (box, id, limit) => {
      const init = initOf(box)
      const merged = init === undefined ? undefined : `/proc/${init}/root`
      const { deployment, layers: own, sharedLayers: shared } = box
      const isWasteful = measured.isWasteful(box)
      const from = { disk: diskOf(box.name), layers: own, merged, shared, isWasteful }
      return layers.takeSnapshot(id, { ...from, deployment, createdAt: clock.now() }, limit)
    },
    canKeepDisk: (box) => !layers.isFull(box.layers) && !measured.isWasteful(box),
    keepDisk: (box) => {
      const { deployment, ending, sharedLayers: shared } = box
      if (!ending) return
      const of = { disk: diskOf(box.name), layers: box.layers, shared }
      layers.keepDisk(ending.id, { ...of, deployment, createdAt: ending.at })
    },
    isDiskKept: (box) => !existsSync(join(diskOf(box.name), "upper")),
    listSnapshots: layers.listSnapshots,
    removeSnapshot: (id, boxes) => {
      layers.removeSnapshot(id)
      layers.collect(boxes.flatMap(layersOf))
    },
    removeVolume: (name) => {
      const folder = volumeFolder(name)
      if (folder !== undefined) removeTree(folder, within)
    },
    removeFiles: (box, others) => {
      measured.forget(box)
      killLaunchersOf(box)
      removeDisk(diskOf(box.name), within)
      layers.collect(others.flatMap(layersOf))
    },
  }
}

/**
 * How an isolated sandbox of this machine is started, as text: the mounts, the network and the arguments of bubblewrap. All
 * mounts are made in a mount namespace of the sandbox, so that none is left when its processes have ended. Pure.
 */

import { shellQuoted } from "../../lib/shell-quote.ts"
import { shortDigest } from "../../lib/digest.ts"
import { callFilter } from "./local-call-filter.ts"

/** A directory or file of this machine that the sandbox sees. */
export interface BoxBind {
  readonly source: string
  readonly target: string
  readonly isDirectory: boolean
  readonly isReadOnly: boolean
}

export interface BoxNetwork {
  /** Ports of this machine's loopback that lead to the same ports in the sandbox. */
  readonly inbound: readonly number[]
  /** Ports of this machine's loopback that the sandbox reaches on its own loopback. All others do not exist in it. */
  readonly outbound: readonly number[]
  /** False: the sandbox has no other network than those ports. */
  readonly isDirect: boolean
  /** The address in the sandbox at which this machine's resolver answers, if that is on loopback. */
  readonly dnsForward?: string | undefined
}

export interface BoxPlan {
  /** Its own directory of mount points, which `writeMounts` makes; the mount table is the file of this name and `.fstab`. */
  readonly mounts: string
  /** Holds `upper` and `work`. */
  readonly disk: string
  readonly diskKind: DiskKind
  /** Read-only layers below `upper`, the topmost first. */
  readonly layers: readonly string[]
  readonly binds: readonly BoxBind[]
  /** Undefined: the network of this machine. */
  readonly network: BoxNetwork | undefined
  /** The user of this machine whose processes they are, if the fleet is root. */
  readonly becomes: number | undefined
  readonly users: BoxUsers
  /** The shell command that puts the launcher into its group of processes. */
  readonly join?: string | undefined
  readonly environment: Readonly<Record<string, string>>
  readonly cwd: string
  readonly command: readonly string[]
}

/** `copy`: there are no layers, `upper` is the whole disk. */
export type DiskKind = "overlay" | "fuse" | "copy"

/** `two`: the runner is root of the sandbox's user namespace, and the agent another user. `one`: they are one user. */
export type BoxUsers = "one" | "two"

/** The agent's user in the sandbox. */
export const BOX_UID = 1000

/**
 * What a runner that is root of its user namespace may do: act as the agent, see and end its processes, and give it files. Without
 * other rights it can neither mount nor change its network.
 */
export const runnerRights = [
  "chown",
  "dac_override",
  "fowner",
  "fsetid",
  "kill",
  "setgid",
  "setuid",
  "sys_ptrace",
]

/** Runs a command of a fleet that is not root as root of a user namespace with its subordinate users (/etc/subuid). */
export const asRootOfNamespace = ["unshare", "--user", "--map-root-user", "--map-auto", "--"]

/** A directory of this machine. The mounts of a sandbox are below it, in its own mount namespace only. */
const MOUNTS = "/mnt"
const ROOT = `${MOUNTS}/root`

/** Files of this machine's /etc without which programs do not work. Passwords and keys of hosts are not among them. */
const etcFiles = [
  "alternatives",
  "ca-certificates",
  "ca-certificates.conf",
  "debian_version",
  "fonts",
  "java-17-openjdk",
  "ld.so.cache",
  "ld.so.conf",
  "ld.so.conf.d",
  "locale.alias",
  "localtime",
  "mime.types",
  "nsswitch.conf",
  "os-release",
  "pki",
  "profile",
  "protocols",
  "python3",
  "services",
  "ssl",
  "terminfo",
  "timezone",
]

/** Directories of the system at the root, which are links into /usr on most machines. */
export const systemDirectories = ["bin", "sbin", "lib", "lib32", "lib64", "libx32"]
/** Files by which the loader finds libraries. Without one of this machine they are empty, so that the agent cannot write its own. */
const loaderFiles = ["/etc/ld.so.preload", "/etc/ld.so.cache"]
const HOSTS_FILE = "/etc/hosts"
const userFiles = ["/etc/passwd", "/etc/group"]

/** The fleet that is root writes the two users of a namespace itself, from outside. */
const writesMaps = ({ becomes, users }: BoxPlan): boolean =>
  becomes !== undefined && users === "two"

const namespacesOf = (plan: BoxPlan): readonly string[] => {
  const users = plan.users === "two" ? ["--map-root-user", "--map-auto"] : ["--map-root-user"]
  return ["unshare", "--user", ...(writesMaps(plan) ? ["--keep-caps"] : users), "--mount"]
}
/** File descriptors of bubblewrap: its arguments, the pipe that delays the sandbox's program, and the filter of kernel calls. */
const ARGUMENTS = 3
const READY = 4
const FILTER = 5
const SIGCHLD = 17

const quote = (text: string): string => (/^[\w./:=,+-]+$/.test(text) ? text : shellQuoted(text))
const line = (...words: readonly string[]): string => words.map(quote).join(" ")

const layerPath = (index: number) => `${MOUNTS}/l${index}`
const bindPath = (index: number) => `${MOUNTS}/b${index}`
const EMPTY = `${MOUNTS}/empty`
const HOSTS = `${MOUNTS}/hosts`
const CALLS = `${MOUNTS}/calls`
const PASSWD = `${MOUNTS}/passwd`
const GROUP = `${MOUNTS}/group`
/** Read-only in a sandbox: with another one the agent could lead the runner's calls to itself. */
export const hostsText = "127.0.0.1 localhost sandbox\n::1 localhost\n"

/** Read-only in a sandbox of two users: the runner finds the agent's user in them. */
export const passwdText = [
  "root:x:0:0:root:/root:/bin/sh",
  `agent:x:${BOX_UID}:${BOX_UID}:agent:/home/agent:/bin/bash`,
  "nobody:x:65534:65534:nobody:/:/bin/false",
  "",
].join("\n")
export const groupText = `root:x:0:\nagent:x:${BOX_UID}:\nnogroup:x:65534:\n`

/** Mounts of the sandbox that are not on its disk. */
const NOT_ON_DISK = /^\/(?:usr|proc|dev|run)(?:\/|$)/

/** `/a/b/c` -> `/a`, `/a/b` */
const foldersAbove = (path: string): readonly string[] => {
  const names = path.split("/").filter((name) => name !== "")
  return names.slice(0, -1).map((_, index) => `/${names.slice(0, index + 1).join("/")}`)
}

const STATE = "/var/lib/sandpiper"
/** Directories of the runner, and those that it shares with the agent, whose owner could replace its files. */
const runnerFolders = ["/root", "/tmp", "/var", "/var/lib", STATE, "/var/tmp"]

/**
 * Directories of the disk that the agent may fill but not move. A read-only file in a directory that can be moved is no wall:
 * another one would be found at its path. A mount point cannot be moved, so each of them is mounted on itself, those above first.
 */
const fixedFolders = ({ binds, users }: Pick<BoxPlan, "binds" | "users">): readonly string[] =>
  [
    ...new Set([
      "/etc",
      ...(users === "two" ? runnerFolders : []),
      ...binds.flatMap(({ target, isReadOnly }) => (isReadOnly ? foldersAbove(target) : [])),
    ]),
  ]
    .filter((path) => !NOT_ON_DISK.test(path))
    .toSorted((one, other) => one.length - other.length)

/** The directories and files, with their content, on which or from which parts of the sandbox are mounted, relative to `mounts`. */
export const mountPoints = ({
  layers,
  binds,
  users,
}: BoxPlan): {
  readonly directories: readonly string[]
  readonly files: Readonly<Record<string, string | Uint8Array>>
} => {
  const inside = (path: string) => path.slice(MOUNTS.length + 1)
  const pointsOf = (isDirectory: boolean) =>
    binds.flatMap((bind, index) =>
      bind.isDirectory === isDirectory ? [inside(bindPath(index))] : [],
    )
  return {
    directories: [
      inside(ROOT),
      "disk",
      "devices",
      ...layers.map((_, index) => inside(layerPath(index))),
      ...pointsOf(true),
    ],
    files: {
      [inside(EMPTY)]: "",
      [inside(HOSTS)]: hostsText,
      [inside(CALLS)]: callFilter(),
      ...(users === "two" && { [inside(PASSWD)]: passwdText, [inside(GROUP)]: groupText }),
      ...Object.fromEntries(pointsOf(false).map((name) => [name, ""])),
    },
  }
}

export const mountTableOf = ({ mounts }: Pick<BoxPlan, "mounts">): string => `${mounts}.fstab`

/** A field of a mount table ends at white space. */
const field = (text: string): string =>
  text.replaceAll(
    /[\s\\]/g,
    (letter) => `\\${(letter.codePointAt(0) ?? 0).toString(8).padStart(3, "0")}`,
  )

/** All mounts that one process makes, in their order. A process for each would be most of the time of a start. */
export const mountTable = (plan: BoxPlan): string => {
  const bind = (source: string, target: string) => `${field(source)} ${target} none bind 0 0`
  const tmpfs = (target: string) => `tmpfs ${target} tmpfs mode=755,size=64k 0 0`
  const isRoot = plan.becomes !== undefined
  const lines = [
    bind(plan.mounts, MOUNTS),
    bind(plan.disk, `${MOUNTS}/disk`),
    ...plan.layers.map((layer, index) => bind(layer, layerPath(index))),
    ...plan.binds.map(({ source }, index) => bind(source, bindPath(index))),
    ...(isRoot && plan.diskKind === "fuse" ? [tmpfs(`${MOUNTS}/devices`)] : []),
    ...(isRoot && plan.network ? [tmpfs("/dev/net")] : []),
  ]
  return lines.map((text) => `${text}\n`).join("")
}

const layoutScript = (plan: BoxPlan): string =>
  line("mount", "--all", "--fstab", mountTableOf(plan))

const diskScript = ({ diskKind, layers }: BoxPlan): string => {
  const parts = [
    `lowerdir=${layers.map((_, index) => layerPath(index)).join(":")}`,
    `upperdir=${MOUNTS}/disk/upper`,
    `workdir=${MOUNTS}/disk/work`,
  ]
  if (diskKind === "copy") return line("mount", "--bind", `${MOUNTS}/disk/upper`, ROOT)
  return diskKind === "overlay"
    ? line("mount", "-t", "overlay", "-o", ["userxattr", ...parts].join(","), "overlay", ROOT)
    : line("fuse-overlayfs", "-o", parts.join(","), ROOT)
}

/**
 * Removes from the disk what the agent may have put in the place of a mount point. A mount on a symbolic link would be somewhere
 * else, and the program at the path of the link would be the agent's.
 */
const mountPointScript = (plan: BoxPlan): string => {
  const fit = (source: string, target: string) => line("fit", source, `${ROOT}${target}`)
  const folder = (target: string) => fit("/", target)
  const made = (target: string) =>
    `[ -d ${quote(`${ROOT}${target}`)} ] || ${line("mkdir", `${ROOT}${target}`)}`
  return [
    "fit() {",
    '[ -e "$1" ] || return 0',
    'if [ -d "$1" ]; then kind=d; else kind=f; fi',
    'if [ -L "$2" ] || { [ -e "$2" ] && [ ! -$kind "$2" ]; }; then rm -rf -- "$2"; fi',
    "}",
    ...["/usr", "/proc", "/dev", "/run"].map(folder),
    ...systemDirectories.map((name) => fit(`/${name}`, `/${name}`)),
    ...fixedFolders(plan).flatMap((target) => [folder(target), made(target)]),
    `for name in ${line(...etcFiles, "resolv.conf")}; do fit "/etc/$name" "${ROOT}/etc/$name"; done`,
    ...[...loaderFiles, HOSTS_FILE, ...(plan.users === "two" ? userFiles : [])].map((target) =>
      fit(EMPTY, target),
    ),
    ...plan.binds.flatMap(({ target }, index) => [
      ...foldersAbove(target).map(folder),
      fit(bindPath(index), target),
    ]),
  ].join("\n")
}

/**
 * The owners of the disk's files. The disk of a sandbox of one user, also of an earlier version, becomes the agent's, and what it
 * could have left there for programs of the runner is removed. The fixed directories belong to the runner.
 */
const ownerScript = (plan: BoxPlan): readonly string[] => {
  if (plan.users === "one") return []
  const agent = `${BOX_UID}:${BOX_UID}`
  const inRoot = (path: string) => `${ROOT}${path}`
  const volumes = plan.binds.flatMap(({ isReadOnly }, index) =>
    isReadOnly ? [] : [bindPath(index)],
  )
  return [
    `if [ -O ${inRoot("/home/agent")} ]; then`,
    line("rm", "-rf", ...["/root", "/etc/gitconfig"].map(inRoot)),
    line("mkdir", "-m", "700", inRoot("/root")),
    line("chown", "-hR", agent, ROOT),
    line("chown", "-hR", "0:0", ...["/etc", STATE].map(inRoot)),
    "fi",
    line("chown", "0:0", ...fixedFolders(plan).map(inRoot)),
    ...volumes.map((path) => `[ ! -O ${path} ] || ${line("chown", "-hR", agent, path)}`),
  ]
}

const pastaCommand = (network: BoxNetwork): readonly string[] => {
  const list = (ports: readonly number[]) => (ports.length === 0 ? "none" : ports.join(","))
  const inbound = network.inbound.length === 0 ? "none" : `127.0.0.1/${network.inbound.join(",")}`
  return [
    "pasta",
    "--foreground",
    "--quiet",
    "--no-map-gw",
    ...(network.isDirect ? ["--config-net"] : ["--no-dhcp", "--no-ra", "--no-ndp"]),
    ...(network.dnsForward === undefined ? [] : ["--dns-forward", network.dnsForward]),
    "-t",
    inbound,
    "-u",
    "none",
    "-T",
    list(network.outbound),
    "-U",
    "none",
  ]
}

interface Pipes {
  readonly born: string
  readonly mapped: string
  readonly ready: string
}

/** Unique on this machine: it is on the command line of the sandbox's pasta. */
export const readyPipeOf = ({ mounts }: Pick<BoxPlan, "mounts">): string =>
  `ready-${shortDigest(mounts, 16)}`

const pipesOf = (plan: BoxPlan): Pipes => {
  const folder = plan.becomes === undefined ? plan.disk : `${MOUNTS}/disk`
  return {
    born: `${folder}/born`,
    mapped: `${folder}/mapped`,
    ready: `${folder}/${readyPipeOf(plan)}`,
  }
}

const asUser = (user: number): readonly string[] => [
  "setpriv",
  "--reuid",
  String(user),
  "--regid",
  String(user),
  "--clear-groups",
]

/** The agent's user on this machine: the one after the runner's. */
const mapScript = (runner: number, mapped: string): string => {
  const map = `'0 ${runner} 1\\n${BOX_UID} ${runner + 1} 1\\n'`
  return `printf ${map} >"/proc/$box/uid_map"; printf ${map} >"/proc/$box/gid_map"; echo >${quote(mapped)}`
}

/**
 * Starts pasta beside the sandbox: its own start takes longer than all of the sandbox's. It begins when the sandbox has its
 * namespaces (the pipe `born`), and bubblewrap starts the sandbox's program when pasta is ready (the pipe `ready`). If one of the two
 * ends, the other is ended. The users of a namespace with two of them are written in between (the pipe `mapped`).
 */
const besideBox = (plan: BoxPlan, inner: string): string => {
  const { network, becomes } = plan
  const { born, mapped, ready } = pipesOf(plan)
  const isRoot = writesMaps(plan) && becomes !== undefined
  const as = isRoot ? asUser(becomes) : []
  const beside = [
    `read -r _ <${quote(born)}`,
    ...(isRoot ? [mapScript(becomes, mapped)] : []),
    ...(network ? [`exec ${line(...as, ...pastaCommand(network), "--pid", ready)} "$box"`] : []),
  ].join("; ")
  return [
    "set -e",
    ...[born, mapped, ready].map(
      (pipe) => `[ -p ${quote(pipe)} ] || ${line(...as, "mkfifo", "-m", "600", pipe)}`,
    ),
    `exec ${ARGUMENTS}<&0 </dev/null`,
    // With a trap, the end of either process ends the wait.
    ...(network ? ["trap : CHLD"] : []),
    `${line(...as, ...namespacesOf(plan), ...(network ? ["--net"] : []), "--", "/bin/sh", "-c", inner)} & box=$!`,
    `{ ${beside}; } ${ARGUMENTS}<&- & net=$!`,
    `exec ${ARGUMENTS}<&-`,
    'wait "$box" && code=0 || code=$?',
    // The child of bubblewrap waits for the pipe `ready` and does not end with its parent there.
    'kill -KILL $(cat "/proc/$box/task/$box/children" 2>/dev/null) "$box" "$net" 2>/dev/null || :',
    `[ "$code" -ne ${128 + SIGCHLD} ] || wait "$box" || code=$?`,
    'exit "$code"',
  ].join("\n")
}

/** The command of the launcher. Its standard input is the text of `boxArguments`. */
export const launchCommand = (plan: BoxPlan): readonly string[] => {
  const { network } = plan
  const isRoot = plan.becomes !== undefined
  const pipes = pipesOf(plan)
  const isBeside = network !== undefined || writesMaps(plan)
  const inner = [
    "set -e",
    ...(isBeside ? [`echo >${quote(pipes.born)}`] : [`exec ${ARGUMENTS}<&0 </dev/null`]),
    ...(writesMaps(plan) ? [`read -r _ <${quote(pipes.mapped)}`] : []),
    ...(isRoot ? [] : [layoutScript(plan)]),
    diskScript(plan),
    mountPointScript(plan),
    ...ownerScript(plan),
    // As `--disable-userns` of bubblewrap, which makes no user namespace here.
    ...(plan.users === "two" ? ["echo 0 >/proc/sys/user/max_user_namespaces"] : []),
    ...(network ? [`exec ${READY}<>${quote(pipes.ready)}`] : []),
    `exec ${FILTER}<${quote(CALLS)}`,
    `exec bwrap --args ${ARGUMENTS} -- ${line(...plan.command)}`,
  ].join("\n")
  const start = isBeside
    ? ["/bin/sh", "-c", besideBox(plan, inner)]
    : [...namespacesOf(plan), "--", "/bin/sh", "-c", inner]
  const { join, becomes } = plan
  if (becomes === undefined)
    return join === undefined ? start : ["/bin/sh", "-c", `${join} && exec "$@"`, "sh", ...start]
  const outer = [
    "set -e",
    // The kernel takes up to 20 ms for it, so the mounts are made meanwhile.
    `{ ${join ?? ":"}; } & join=$!`,
    layoutScript(plan),
    // The devices are for root only on some machines.
    ...(plan.diskKind === "fuse"
      ? [
          line("mknod", "-m", "666", `${MOUNTS}/devices/fuse`, "c", "10", "229"),
          line("mount", "--bind", `${MOUNTS}/devices/fuse`, "/dev/fuse"),
        ]
      : []),
    ...(network ? [line("mknod", "-m", "666", "/dev/net/tun", "c", "10", "200")] : []),
    'wait "$join"',
    `exec ${line(...(writesMaps(plan) ? [] : asUser(becomes)), ...start)}`,
  ].join("\n")
  return ["unshare", "--mount", "--propagation", "private", "--", "/bin/sh", "-c", outer]
}

const userArguments = (users: BoxUsers): readonly string[] =>
  users === "one"
    ? ["--unshare-user", "--disable-userns", "--uid", String(BOX_UID), "--gid", String(BOX_UID)]
    : [
        "--cap-drop",
        "ALL",
        ...runnerRights.flatMap((right) => ["--cap-add", `CAP_${right.toUpperCase()}`]),
      ]

/** The arguments of bubblewrap, each followed by a zero byte. They contain the environment, so they are not on a command line. */
export const boxArguments = (plan: BoxPlan): string => {
  const environment = Object.entries(plan.environment)
  const words = [
    ...userArguments(plan.users),
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-uts",
    "--unshare-cgroup-try",
    "--hostname",
    "sandbox",
    "--as-pid-1",
    ...(plan.network ? ["--block-fd", String(READY)] : []),
    "--seccomp",
    String(FILTER),
    "--die-with-parent",
    "--new-session",
    "--bind",
    ROOT,
    "/",
    "--ro-bind",
    "/usr",
    "/usr",
    ...systemDirectories.flatMap((name) => ["--ro-bind-try", `/${name}`, `/${name}`]),
    ...fixedFolders(plan).flatMap((path) => ["--bind", `${ROOT}${path}`, path]),
    ...loaderFiles.flatMap((path) => ["--ro-bind", EMPTY, path]),
    "--ro-bind",
    HOSTS,
    HOSTS_FILE,
    ...(plan.users === "two"
      ? ["--ro-bind", PASSWD, "/etc/passwd", "--ro-bind", GROUP, "/etc/group"]
      : []),
    ...etcFiles.flatMap((name) => ["--ro-bind-try", `/etc/${name}`, `/etc/${name}`]),
    ...(plan.network?.dnsForward === undefined
      ? ["--ro-bind-try", "/etc/resolv.conf", "/etc/resolv.conf"]
      : []),
    "--proc",
    "/proc",
    "--dev",
    "/dev",
    "--tmpfs",
    "/run",
    ...plan.binds.flatMap(({ target, isReadOnly }, index) => [
      isReadOnly ? "--ro-bind" : "--bind",
      bindPath(index),
      target,
    ]),
    "--chdir",
    plan.cwd,
    "--clearenv",
    ...environment.flatMap(([name, value]) => ["--setenv", name, value]),
  ]
  const bad = words.find((word) => word.includes("\0"))
  if (bad !== undefined) throw new Error("a variable of a sandbox contains a zero byte")
  return words.map((word) => `${word}\0`).join("")
}

/** A shell script that sets these variables. It is read from standard input. */
export const exportScript = (environment: Readonly<Record<string, string>>): string =>
  Object.entries(environment)
    .map(([name, value]) => `export ${name}=${quote(value)}\n`)
    .join("")

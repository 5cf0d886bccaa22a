/**
 * What this machine allows for isolated sandboxes. Each part is tried with the command that starts a sandbox, so that the
 * result is a fact and not a guess from versions.
 */
import { chownSync, existsSync, mkdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import {
  asRootOfNamespace,
  BOX_UID,
  boxArguments,
  type BoxPlan,
  type BoxUsers,
  type DiskKind,
  launchCommand,
} from "./local-box.ts"
import { findCgroups } from "./local-cgroups.ts"
import type { Isolation } from "./local-isolated.ts"
import { createBase, removeDisk } from "./local-layers.ts"
import { removeTree } from "./local-drafts.ts"
import { writeMounts } from "./local-mounts.ts"
import { killLaunchers, killTree } from "./local-processes.ts"

/** A user of this machine that owns nothing else. Used if the fleet is root. */
const SANDBOX_USER = 1_700_009_000
const PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
const TRY_MS = 10_000
const needed = ["bwrap", "unshare", "nsenter", "mount"] as const

export interface MachineFinding {
  readonly part: "bubblewrap" | "users" | "overlay" | "pasta" | "cgroup"
  readonly isThere: boolean
  readonly text: string
}

export interface Machine {
  /** Undefined: sandboxes can only be processes without isolation. */
  readonly isolation: Isolation | undefined
  readonly findings: readonly MachineFinding[]
}

/** Undefined if a sandbox of this kind starts; otherwise the first line of the problem. */
const tryBox = async (
  folder: string,
  becomes: number | undefined,
  part: Pick<BoxPlan, "diskKind" | "network" | "users">,
): Promise<string | undefined> => {
  const place = join(folder, crypto.randomUUID())
  const disk = join(place, "disk")
  const layer = join(place, "layer")
  const uid = String(BOX_UID)
  const within = becomes === undefined && part.users === "two" ? asRootOfNamespace : []
  try {
    const isCopy = part.diskKind === "copy"
    for (const path of [
      place,
      disk,
      join(disk, "work"),
      ...(isCopy ? [] : [join(disk, "upper")]),
    ]) {
      mkdirSync(path, { mode: 0o755 })
      if (becomes !== undefined) chownSync(path, becomes, becomes)
    }
    await createBase(isCopy ? join(disk, "upper") : layer, becomes)
    const plan: BoxPlan = {
      mounts: join(place, "mounts"),
      disk,
      layers: isCopy ? [] : [layer],
      binds: [],
      becomes,
      environment: { PATH },
      cwd: "/",
      command:
        part.users === "one"
          ? ["/usr/bin/true"]
          : [
              "setpriv",
              "--reuid",
              uid,
              "--regid",
              uid,
              "--clear-groups",
              "test",
              "-w",
              "/workspace",
            ],
      ...part,
    }
    writeMounts(plan)
    const log = join(place, "log")
    const child = Bun.spawn([...launchCommand(plan)], {
      cwd: "/",
      env: { PATH },
      stdin: new Blob([boxArguments(plan)]),
      stdout: "ignore",
      stderr: Bun.file(log),
    })
    const timer = setTimeout(() => killTree(child.pid), TRY_MS)
    const code = await child.exited
    clearTimeout(timer)
    if (code === 0) return undefined
    return readFileSync(log, "utf8").trim().split("\n").at(-1)?.slice(0, 200) || `exit code ${code}`
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  } finally {
    killLaunchers(place)
    removeDisk(disk, within)
    removeTree(place, within)
  }
}

/** Why this user has no namespace with subordinate users. Nothing is written before it is known: only such a namespace removes it. */
const problemOfNamespace = (): string | undefined => {
  const { exitCode, stderr } = Bun.spawnSync([...asRootOfNamespace, "true"], { env: { PATH } })
  if (exitCode === 0) return undefined
  return stderr.toString().trim().split("\n").at(-1)?.slice(0, 200) || `exit code ${exitCode}`
}

const cgroupFinding = (): MachineFinding => {
  const { root, limits } = findCgroups()
  if (root === undefined)
    return {
      part: "cgroup",
      isThere: false,
      text: "this user may not make groups of version 2: sandboxes are paused by signals and have no limits",
    }
  const text =
    limits === undefined
      ? `${root}, without controllers: sandboxes have no limits`
      : `${root}, limits by version ${limits.version}`
  return { part: "cgroup", isThere: limits !== undefined, text }
}

/** `folder`: on the disk that will hold the sandboxes. */
export const probeMachine = async (folder: string): Promise<Machine> => {
  const cgroup = cgroupFinding()
  const isRoot = process.getuid?.() === 0
  const becomes = isRoot ? SANDBOX_USER : undefined
  const missing = [...needed, ...(isRoot ? ["setpriv"] : [])].filter(
    (name) => Bun.which(name, { PATH }) === null,
  )
  if (missing.length > 0 || !existsSync("/mnt")) {
    const text =
      missing.length > 0 ? `${missing.join(", ")} not installed` : "there is no directory /mnt"
    const none = `${text}: sandboxes are not isolated`
    return {
      isolation: undefined,
      findings: [{ part: "bubblewrap", isThere: false, text: none }, cgroup],
    }
  }
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const ofTwo =
    (isRoot ? undefined : problemOfNamespace()) ??
    (await tryBox(folder, becomes, { diskKind: "copy", network: undefined, users: "two" }))
  const users: BoxUsers = ofTwo === undefined ? "two" : "one"
  const attempt = (diskKind: DiskKind, network?: BoxPlan["network"]) =>
    tryBox(folder, becomes, { diskKind, network, users })
  const hasPasta = Bun.which("pasta", { PATH }) !== null
  const [plain, overlay, network] = await Promise.all([
    attempt("copy"),
    attempt("overlay"),
    hasPasta
      ? attempt("copy", { inbound: [], outbound: [], isDirect: true })
      : Promise.resolve("passt is not installed"),
  ])
  if (plain !== undefined)
    return {
      isolation: undefined,
      findings: [
        { part: "bubblewrap", isThere: false, text: `${plain}: sandboxes are not isolated` },
        cgroup,
      ],
    }
  const hint = isRoot
    ? ""
    : "; install newuidmap (package uidmap) and give this user 65,536 ids in /etc/subuid and /etc/subgid"
  const fuse =
    overlay === undefined || Bun.which("fuse-overlayfs", { PATH }) === null
      ? "fuse-overlayfs is not installed"
      : await attempt("fuse")
  const disk: DiskKind = overlay === undefined ? "overlay" : fuse === undefined ? "fuse" : "copy"
  const diskTexts: Readonly<Record<DiskKind, string>> = {
    overlay: "by the kernel",
    fuse: `by fuse-overlayfs, because the kernel's is refused: ${overlay}`,
    copy: `refused (${overlay}; ${fuse}): disks are copied`,
  }
  return {
    isolation: { disk, network: network === undefined ? "own" : "shared", becomes, users },
    findings: [
      {
        part: "bubblewrap",
        isThere: true,
        text: `as ${isRoot ? `user ${becomes}` : "this user"}`,
      },
      {
        part: "users",
        isThere: users === "two",
        text:
          users === "two"
            ? "the agent is a user of its own in a sandbox"
            : `${ofTwo}: runner and agent are one user in a sandbox, and the agent can read and change the runner's state${hint}`,
      },
      { part: "overlay", isThere: disk !== "copy", text: diskTexts[disk] },
      {
        part: "pasta",
        isThere: network === undefined,
        text:
          network === undefined
            ? "sandboxes have a network of their own"
            : `${network}: sandboxes share the network of this machine and its loopback`,
      },
      cgroup,
    ],
  }
}

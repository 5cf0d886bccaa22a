/**
 * The contract of a sandbox provider: what the fleet asks of it and how it answers. What a provider can do is read from
 * its capabilities, never from its name.
 */

import type { DiskReport } from "../core/disk-notes.ts"
import type { DiskAction, DiskRoom, DiskSize } from "../core/disk-quota.ts"

export const providerNames = [
  "local",
  "docker",
  "modal",
  "e2b",
  "daytona",
  "kubernetes",
  "noop",
] as const
export type ProviderName = (typeof providerNames)[number]

export const limitNames = ["cpu", "memoryMiB", "pids"] as const
export type LimitName = (typeof limitNames)[number]

export interface Capabilities {
  /** Stops and continues under the same ref. */
  readonly supportsPause: boolean
  /** Pauses by itself at the end of its time instead of being deleted. */
  readonly supportsAutoPause: boolean
  /** `copy`: the sandbox continues. `stop`: it is gone afterwards. `pause`: the snapshot is the paused sandbox itself. */
  readonly snapshot: "copy" | "stop" | "pause" | "none"
  readonly supportsMemorySnapshot: boolean
  /** Directories that outlive sandboxes and are not part of snapshots. */
  readonly volumes: boolean
  /** A second create under the same name is refused by the provider. Without it, doubled creates are found by label. */
  readonly uniqueNames: boolean
  /** The limits that are enforced. A sandbox with another one is refused. */
  readonly limits: readonly LimitName[]
  readonly exec: boolean
  /** A runner starts in the sandbox and connects to the hub. Without it a created sandbox counts as running. */
  readonly startsRunner: boolean
  /** The provider ends a sandbox after this time, also a busy one. */
  readonly maxLifeMs: number | undefined
  /** A snapshot can be restored for this long. */
  readonly snapshotLifeMs: number | undefined
  /** The provider deletes a sandbox that was paused for this long. Absent: it keeps it. */
  readonly pausedLifeMs?: number
}

/** The limits of a sandbox that its provider does not enforce. */
export const unenforcedLimits = (
  { limits }: Pick<Capabilities, "limits">,
  resources: SandboxSpec["resources"],
): readonly LimitName[] =>
  limitNames.filter((name) => resources[name] !== undefined && !limits.includes(name))

export type ImageChoice =
  /** A snapshot of this session. `mem:<id>` includes memory. */
  | { readonly kind: "snapshot"; readonly id: string }
  /** The base snapshot of the current version key. */
  | { readonly kind: "base"; readonly id: string }
  /** A registry tag, a template or a layer. */
  | { readonly kind: "image"; readonly id: string }

export interface SandboxLabels {
  readonly deployment: string
  readonly tenant: string
  readonly session: string
  readonly generation: string
}

export interface SandboxSpec {
  readonly session: string
  readonly generation: number
  /** Unique per session and generation. The labels say the same and name the deployment. */
  readonly name: string
  readonly labels: SandboxLabels
  readonly image: ImageChoice
  /** Complete: the core secrets are already on top of what callers gave. */
  readonly environment: Readonly<Record<string, string>>
  /** `DO_WS_URL` leads to another session agent and is right as it is. */
  readonly hasForeignLink?: true
  readonly volumes: readonly {
    readonly name: string
    readonly path: string
    readonly readOnly?: true
  }[]
  readonly ports: readonly number[]
  readonly resources: { readonly [Name in LimitName]?: number }
  /** The provider may stop a sandbox that was idle for this long. */
  readonly idleMs: number
  /** The provider may end the sandbox after this time. */
  readonly lifeMs: number
}

/** What a provider reports about one sandbox. Session and generation come from its labels. */
export interface SandboxInfo {
  readonly ref: string
  readonly state: "running" | "paused" | "stopped" | "starting" | "dead"
  readonly session: string | undefined
  readonly generation: number | undefined
  readonly createdAt: number | undefined
  readonly expiresAt: number | undefined
}

export interface SnapshotInfo {
  readonly id: string
  readonly createdAt: number
}

/**
 * The result of a call. `missing`: the provider itself says that the sandbox does not exist. Everything in doubt
 * (timeout, 429, 500, a cut connection) is `unknown`, and nothing is destroyed because of it.
 */
export type ProviderResult<T> =
  | { readonly is: "ok"; readonly value: T }
  | { readonly is: "missing" }
  /** Quota, bad image, no credit: a retry does not help. */
  | { readonly is: "refused"; readonly why: string }
  | { readonly is: "unknown"; readonly why: string; readonly afterMs?: number }

export interface SandboxCommand {
  readonly argv: readonly string[]
  readonly cwd?: string
  readonly environment?: Readonly<Record<string, string>>
}

export interface SandboxCommandResult {
  readonly exitCode: number
  readonly stdout: string
  readonly stderr: string
}

export interface SandboxAddress {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly expiresAt?: number
}

/** How full the disks of sandboxes are that share one with this program. */
export interface SandboxDisks {
  /** Of the disk that holds the sandboxes. */
  readonly room: () => Promise<DiskRoom>
  /**
   * Measures what a sandbox has written, decides, and does what was decided. `holds`: its processes do not run from before the
   * measurement until it is done, where that is possible.
   */
  readonly check: (
    ref: string,
    how: { readonly holds: boolean; readonly limit: AbortSignal },
    decide: (use: DiskSize) => DiskAction,
  ) => Promise<ProviderResult<DiskAction>>
  /** Lets sandboxes go on that a process has left standing when it was killed during a measurement. */
  readonly recover: () => void
  /** The last report about a sandbox, which outlives this program. */
  readonly report: (ref: string) => DiskReport | undefined
  /** Stores it where the sandbox can read it and cannot write. */
  readonly setReport: (ref: string, report: DiskReport) => void
}

export interface SandboxProvider {
  readonly name: ProviderName
  readonly can: Capabilities
  /**
   * Sandboxes with the label of this deployment. Reads only: it wakes nothing and extends no time. Throws if the list is
   * incomplete.
   */
  readonly list: (by: {
    readonly deployment: string
    readonly session?: string
  }) => AsyncIterable<SandboxInfo>
  /** Reads only. */
  readonly look: (ref: string) => Promise<ProviderResult<SandboxInfo>>
  /** `missing`: the snapshot or base snapshot of the spec does not exist. The session continues without it. */
  readonly create: (
    spec: SandboxSpec,
    limit: AbortSignal,
  ) => Promise<ProviderResult<{ readonly ref: string; readonly expiresAt?: number }>>
  /** Throws an UnsupportedError without `supportsPause`. A paused sandbox is `ok`. */
  readonly pause: (ref: string) => Promise<ProviderResult<void>>
  /** A running sandbox is `ok`. */
  readonly resume: (
    ref: string,
    spec: Pick<SandboxSpec, "idleMs" | "lifeMs">,
  ) => Promise<ProviderResult<{ readonly expiresAt?: number }>>
  readonly snapshot: (
    ref: string,
    kind: "disk" | "memory",
    limit: AbortSignal,
    /** `ends`: the sandbox is terminated next. A provider may pause it for that and needs no copy then. */
    how?: { readonly ends: boolean },
  ) => Promise<
    ProviderResult<{
      readonly id: string
      readonly bytes?: number
      /** The sandbox is paused now. A resume continues it, and the snapshot stays. */
      readonly isPaused?: true
    }>
  >
  /** Deletes a snapshot. One that does not exist is `ok`. */
  readonly removeSnapshot: (snapshot: string) => Promise<ProviderResult<void>>
  /**
   * Snapshots with the label of this deployment. Absent: the provider cannot list them. Reads only. Throws if the list is
   * incomplete.
   */
  readonly listSnapshots?: (by: { readonly deployment: string }) => AsyncIterable<SnapshotInfo>
  /** A sandbox that does not exist is `ok`. */
  readonly terminate: (ref: string) => Promise<ProviderResult<void>>
  readonly keepAlive: (ref: string, ms: number) => Promise<ProviderResult<void>>
  /** For the fleet's own calls, which send the headers. Fresh on every call: addresses expire, refs do not. */
  readonly address: (ref: string, port: number) => Promise<ProviderResult<SandboxAddress>>
  /** For browsers and other programs, without headers. Absent: they use `address`, if that one needs no headers. */
  readonly publicAddress?: (ref: string, port: number) => Promise<ProviderResult<SandboxAddress>>
  readonly exec: (
    ref: string,
    command: SandboxCommand,
    limit: AbortSignal,
  ) => Promise<ProviderResult<SandboxCommandResult>>
  /** A volume that does not exist is `ok`. */
  readonly removeVolume: (name: string) => Promise<ProviderResult<void>>
  /** The fleet ends, and its sandboxes go on. Absent: nothing is to be done. */
  readonly leave?: () => Promise<void>
  /** Whether the provider can be reached with these credentials. */
  readonly health: () => Promise<ProviderResult<void>>
  /** Absent: the sandboxes have disks elsewhere. */
  readonly disks?: SandboxDisks
}

/** The caller did not look at the capabilities: a fault of the program, not of the provider. */
export class UnsupportedError extends Error {
  constructor(provider: ProviderName, call: string) {
    super(`the sandbox provider ${provider} does not support ${call}: check its capabilities first`)
    this.name = "UnsupportedError"
  }
}

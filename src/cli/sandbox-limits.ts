/** The limits of sandboxes, from the settings. `serve` does not start with a limit that its provider would not enforce. */
import { availableParallelism, totalmem } from "node:os"
import { defaultDiskLimit, type DiskSize } from "../fleet/core/disk-quota.ts"
import {
  type LimitName,
  type ProviderName,
  type SandboxDisks,
  type SandboxProvider,
  type SandboxSpec,
  unenforcedLimits,
} from "../fleet/providers/contract.ts"
import { SettingsError } from "../settings/settings-error.ts"
import type { Settings } from "../settings/settings.ts"

const variables: Readonly<Record<LimitName, string>> = {
  cpu: "SANDBOX_CPUS",
  memoryMiB: "SANDBOX_MEMORY_MIB",
  pids: "SANDBOX_PIDS",
}

/** Where the limits are instead, or what they need. */
const hints: Readonly<Record<ProviderName, string>> = {
  local: "they need isolation and controllers of cgroups, see `sandpiper doctor`",
  docker: "a container has limits of CPU, memory and processes",
  modal: "Modal has limits of CPU and memory only",
  e2b: "a sandbox has the CPU and the memory of its template",
  daytona: "a sandbox has the CPU and the memory of its snapshot: make the snapshot with them",
  kubernetes:
    "pods have limits of CPU and memory only, and those of a warm pool are in its template",
  noop: "there are no sandboxes",
}

export interface MachineSize {
  readonly memoryMiB: number
  readonly cores: number
}

const LEAST_MEMORY_MIB = 1024
const FIRST_PIDS = 512
const PIDS_OF_A_CORE = 256
const MOST_PIDS = 4096

/**
 * Limits of a sandbox of this machine for which no setting gives one: half of the machine's memory, and so many processes and
 * threads that builds work and the machine's own programs still start.
 */
export const defaultLimits = ({ memoryMiB, cores }: MachineSize) => ({
  memoryMiB: Math.min(memoryMiB, Math.max(LEAST_MEMORY_MIB, Math.floor(memoryMiB / 2))),
  pids: Math.min(MOST_PIDS, FIRST_PIDS + PIDS_OF_A_CORE * cores),
})

const defaultsFor = (
  { name, can }: Pick<SandboxProvider, "name" | "can">,
  machine: MachineSize,
): SandboxSpec["resources"] => {
  if (name !== "local") return {}
  const { memoryMiB, pids } = defaultLimits(machine)
  return {
    ...(can.limits.includes("memoryMiB") && { memoryMiB }),
    ...(can.limits.includes("pids") && { pids }),
  }
}

export const limitsOf = (
  { sandboxCpus: cpu, sandboxMemoryMiB: memoryMiB, sandboxPids: pids }: Settings,
  { name, can }: Pick<SandboxProvider, "name" | "can">,
  machine: MachineSize = {
    memoryMiB: Math.floor(totalmem() / 1024 / 1024),
    cores: availableParallelism(),
  },
): SandboxSpec["resources"] => {
  const limits = {
    ...(cpu !== undefined && { cpu }),
    ...(memoryMiB !== undefined && { memoryMiB }),
    ...(pids !== undefined && { pids }),
  }
  const unenforced = unenforcedLimits(can, limits).map((one) => variables[one])
  if (unenforced.length === 0) return { ...defaultsFor({ name, can }, machine), ...limits }
  throw new SettingsError(
    `unset ${unenforced.join(" and ")}: the sandbox provider ${name} would not enforce it (${hints[name]})`,
  )
}

const MIB = 1024 * 1024
/** A limit of 0 is none. */
const orNone = (limit: number): number => (limit === 0 ? Infinity : limit)

/** What a sandbox may write. Undefined: the disks of this provider's sandboxes are elsewhere. */
export const diskLimitOf = async (
  { sandboxDiskMiB: mib, sandboxFiles: files }: Settings,
  { name, disks }: Pick<SandboxProvider, "name"> & { readonly disks?: Pick<SandboxDisks, "room"> },
): Promise<DiskSize | undefined> => {
  if (disks) {
    const { bytes, inodes } = defaultDiskLimit((await disks.room()).total)
    return {
      bytes: mib === undefined ? bytes : orNone(mib * MIB),
      inodes: files === undefined ? inodes : orNone(files),
    }
  }
  const given = [
    ...(mib === undefined ? [] : ["SANDBOX_DISK_MIB"]),
    ...(files === undefined ? [] : ["SANDBOX_FILES"]),
  ]
  if (given.length === 0) return undefined
  throw new SettingsError(
    `unset ${given.join(" and ")}: only local sandboxes have limits of their disks, and the sandbox provider is ${name}`,
  )
}

/** Settings of `serve` for sandboxes on this machine: how they are kept apart, what they reach, what they may use. */
import { z } from "zod"
import { portList, seconds } from "../fields.ts"
import type { SettingGroup } from "../setting.ts"

const whole = (most: number, least = 1) => {
  const text = `must be a whole number, ${least} to ${most}`
  return z.coerce.number(text).int(text).min(least, text).max(most, text).optional()
}

export const localSandboxSettings = {
  sandboxIsolation: {
    env: "SANDBOX_ISOLATION",
    reaches: [],
    doc: "local sandboxes: `auto` (as isolated as this machine allows), `required` (or `serve` does not start), `none`",
    schema: z.enum(["auto", "required", "none"], "must be auto, required or none"),
    fallback: () => "auto",
  },
  sandboxHostPorts: {
    env: "SANDBOX_HOST_PORTS",
    reaches: [],
    doc: "ports of this machine's loopback that isolated sandboxes may reach, separated by commas",
    schema: portList,
    fallback: () => "none",
  },
  sandboxMemoryMiB: {
    env: "SANDBOX_MEMORY_MIB",
    reaches: [],
    doc: "memory of a sandbox in MiB; not set: half of the machine for isolated local ones, no limit elsewhere",
    schema: whole(1024 * 1024),
  },
  sandboxPids: {
    env: "SANDBOX_PIDS",
    reaches: [],
    doc: "processes and threads of a sandbox; not set: 512 and 256 a core for isolated local ones, no limit elsewhere",
    schema: whole(1_000_000),
  },
  sandboxDiskMiB: {
    env: "SANDBOX_DISK_MIB",
    reaches: [],
    doc: "what a local sandbox may write, in MiB; 0: no limit; not set: a tenth of the disk, at least 4 GiB, at most half of it",
    schema: whole(1024 * 1024 * 1024, 0),
  },
  sandboxFiles: {
    env: "SANDBOX_FILES",
    reaches: [],
    doc: "files and directories of a local sandbox; 0: no limit; not set: a tenth of what the disk can hold, 500,000 to 2,000,000",
    schema: whole(1_000_000_000, 0),
  },
  sandboxCpus: {
    env: "SANDBOX_CPUS",
    reaches: [],
    doc: "processors of a sandbox, such as 1.5; no limit if it is not set",
    schema: z.coerce
      .number("must be a number of processors")
      .min(0.01, "must be at least 0.01")
      .max(1024, "must be at most 1024")
      .optional(),
  },
  sandboxOrphanSeconds: {
    env: "SANDBOX_ORPHAN_SECONDS",
    reaches: [],
    doc: "local sandboxes end after this time without `serve`; their disks stay, and the next `serve` goes on with them; 0: never",
    schema: seconds,
    fallback: () => "86400",
  },
} satisfies SettingGroup

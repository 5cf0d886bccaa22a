/** The contract suite with isolated local sandboxes: bubblewrap, overlay and pasta from Debian, and what replaces them. */
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createLocalProvider } from "../../src/fleet/providers/local.ts"
import type { Cgroups } from "../../src/fleet/providers/local-cgroups.ts"
import type { Isolation } from "../../src/fleet/providers/local-isolated.ts"
import { probeMachine } from "../../src/fleet/providers/local-machine.ts"
import { systemClock } from "../../src/lib/clock.ts"
import { describeProvider } from "../fleet/provider-contract.ts"

interface Variant {
  readonly name: string
  readonly isolation: Partial<Isolation>
  readonly cgroups?: Cgroups
}

const variants: readonly Variant[] = [
  { name: "local with isolation", isolation: {} },
  { name: "local with fuse-overlayfs", isolation: { disk: "fuse" } },
  {
    name: "local with copied disks, the network of this machine and signals",
    isolation: { disk: "copy", network: "shared" },
    cgroups: { root: undefined, limits: undefined },
  },
]

for (const { name, isolation: change, cgroups } of variants)
  describeProvider({
    name,
    can: {
      supportsPause: true,
      supportsAutoPause: false,
      snapshot: "copy",
      supportsMemorySnapshot: false,
      volumes: true,
      uniqueNames: true,
      limits: cgroups === undefined ? ["cpu", "memoryMiB", "pids"] : [],
      exec: true,
      startsRunner: true,
      maxLifeMs: undefined,
      snapshotLifeMs: undefined,
    },
    hasDisk: true,
    hasFaults: false,
    setup: async () => {
      const root = mkdtempSync(join(tmpdir(), "isolated-contract-"))
      const program = join(root, "stand-in")
      writeFileSync(program, "#!/bin/sh\nwhile :; do sleep 1; done\n")
      chmodSync(program, 0o755)
      const { isolation, findings } = await probeMachine(join(root, "fleet", "probe"))
      if (!isolation) throw new Error(`this machine has no isolation: ${JSON.stringify(findings)}`)
      return {
        provider: createLocalProvider({
          root: join(root, "fleet"),
          self: [program],
          clock: systemClock,
          cgroups,
          isolated: {
            isolation: { ...isolation, ...change },
            programs: [program],
            variables: {},
            hostPorts: () => [],
          },
        }),
        image: { kind: "image", id: "-" },
        missingRef: "sp-none-1",
        missingSnapshot: "sp-none-1-1",
        stop: async () => rmSync(root, { recursive: true, force: true }),
      }
    },
  })

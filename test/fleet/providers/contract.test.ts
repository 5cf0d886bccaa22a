/** The contract suite with the providers that need nothing but this machine. */
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createLocalProvider } from "../../../src/fleet/providers/local.ts"
import { createNoopProvider } from "../../../src/fleet/providers/noop.ts"
import { systemClock } from "../../../src/lib/clock.ts"
import { describeProvider } from "../provider-contract.ts"

describeProvider({
  name: "local without isolation",
  can: {
    supportsPause: true,
    supportsAutoPause: false,
    snapshot: "copy",
    supportsMemorySnapshot: false,
    volumes: false,
    uniqueNames: true,
    limits: [],
    exec: true,
    startsRunner: true,
    maxLifeMs: undefined,
    snapshotLifeMs: undefined,
  },
  hasDisk: true,
  hasFaults: false,
  setup: async () => {
    const root = mkdtempSync(join(tmpdir(), "local-contract-"))
    const program = join(root, "stand-in")
    writeFileSync(program, "#!/bin/sh\nwhile :; do sleep 1; done\n")
    chmodSync(program, 0o755)
    return {
      provider: createLocalProvider({
        root: join(root, "fleet"),
        self: [program],
        clock: systemClock,
      }),
      image: { kind: "image", id: "-" },
      missingRef: "sp-none-1",
      missingSnapshot: "sp-none-1-1",
      stop: async () => rmSync(root, { recursive: true, force: true }),
    }
  },
})

describeProvider({
  name: "noop",
  can: {
    supportsPause: true,
    supportsAutoPause: false,
    snapshot: "none",
    supportsMemorySnapshot: false,
    volumes: false,
    uniqueNames: true,
    limits: [],
    exec: false,
    startsRunner: false,
    maxLifeMs: undefined,
    snapshotLifeMs: undefined,
  },
  hasDisk: false,
  hasFaults: false,
  setup: async () => ({
    provider: createNoopProvider(Date.now),
    image: { kind: "image", id: "-" },
    missingRef: "sp-none-1",
    missingSnapshot: "none",
    stop: async () => {},
  }),
})

/** Sandboxes of Modal: its real SDK against a double of its services, through the contract and by what is special. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import type { SandboxSpec } from "../../../src/fleet/providers/contract.ts"
import { createModalProvider } from "../../../src/fleet/providers/modal.ts"
import { CLOUD_IMAGE } from "../kit/cloud.ts"
import { silentLog } from "../kit/fleet.ts"
import {
  MODAL_TOKEN_ID,
  MODAL_TOKEN_SECRET,
  type ModalDouble,
  startModalDouble,
} from "../kit/modal-double.ts"
import { describeProvider } from "../provider-contract.ts"

/** The SDK reads the address from the environment when its client is made. */
const providerOf = (double: ModalDouble, tokenSecret = MODAL_TOKEN_SECRET) => {
  process.env["MODAL_SERVER_URL"] = double.url
  return createModalProvider({
    tokenId: MODAL_TOKEN_ID,
    tokenSecret,
    app: "sandpiper",
    clock: double.clock,
    log: silentLog,
  })
}

const reads = /^(authTokenGet|appGetOrCreate|.*(Get|List|Wait|FromId)[A-Z]?.*|taskExecStdioRead)$/

describeProvider({
  name: "modal",
  can: {
    supportsPause: false,
    supportsAutoPause: false,
    snapshot: "copy",
    supportsMemorySnapshot: true,
    volumes: true,
    uniqueNames: true,
    limits: true,
    exec: true,
    startsRunner: true,
    maxLifeMs: 86_400_000,
    snapshotLifeMs: 30 * 86_400_000,
  },
  hasDisk: true,
  hasFaults: true,
  setup: async () => {
    const double = await startModalDouble()
    return {
      provider: providerOf(double),
      image: { kind: "image", id: CLOUD_IMAGE },
      missingRef: "sb-01K00000000000000000000999",
      missingSnapshot: "im-999",
      writes: () => double.calls.filter(({ name }) => !reads.test(name)).length,
      faults: double.faults,
      stop: double.stop,
    }
  },
})

/** The provider docker with a real engine: Podman's service on a unix socket. */
import { createDockerProvider } from "../../src/fleet/providers/docker.ts"
import { systemClock } from "../../src/lib/clock.ts"
import { describeProvider } from "../fleet/provider-contract.ts"
import { startPodman } from "./podman.ts"

describeProvider({
  name: "docker with a real podman",
  can: {
    supportsPause: true,
    supportsAutoPause: false,
    snapshot: "copy",
    supportsMemorySnapshot: false,
    volumes: true,
    uniqueNames: true,
    limits: ["cpu", "memoryMiB", "pids"],
    exec: true,
    startsRunner: true,
    maxLifeMs: undefined,
    snapshotLifeMs: undefined,
  },
  hasDisk: true,
  hasFaults: false,
  setup: async () => {
    const podman = await startPodman()
    await podman.image({
      name: "localhost/sandbox:test",
      programs: ["sh", "cat", "sleep", "env", "rm"],
      startScript: "#!/bin/sh\nwhile :; do sleep 1; done\n",
    })
    return {
      provider: createDockerProvider({
        socket: podman.socket,
        network: "bridge",
        clock: systemClock,
      }),
      image: { kind: "image", id: "localhost/sandbox:test" },
      missingRef: "sp-none-1",
      missingSnapshot: "localhost/sandpiper-snapshot:sp-none-1-1",
      stop: podman.stop,
    }
  },
})

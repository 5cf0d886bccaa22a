/** The provider for deployments without sandboxes: it records what was asked and starts nothing. */
import { type SandboxInfo, type SandboxProvider, UnsupportedError } from "./contract.ts"

export const createNoopProvider = (now: () => number): SandboxProvider => {
  const sandboxes = new Map<string, SandboxInfo & { readonly deployment: string }>()
  const ok = { is: "ok", value: undefined } as const
  const changeState = (ref: string, state: SandboxInfo["state"]) => {
    const found = sandboxes.get(ref)
    if (found) sandboxes.set(ref, { ...found, state })
    return found !== undefined
  }
  return {
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
    list: async function* ({ deployment, session }) {
      for (const { deployment: own, ...info } of sandboxes.values())
        if (own === deployment && (session === undefined || info.session === session)) yield info
    },
    look: async (ref) => {
      const found = sandboxes.get(ref)
      return found ? { is: "ok", value: found } : { is: "missing" }
    },
    create: async (spec) => {
      if (spec.volumes.length > 0 || Object.keys(spec.resources).length > 0)
        return { is: "refused", why: "the provider noop has no volumes and no limits" }
      if (sandboxes.has(spec.name)) return { is: "unknown", why: `the name ${spec.name} is taken` }
      sandboxes.set(spec.name, {
        ref: spec.name,
        state: "running",
        session: spec.session,
        generation: spec.generation,
        createdAt: now(),
        expiresAt: undefined,
        deployment: spec.labels.deployment,
      })
      return { is: "ok", value: { ref: spec.name } }
    },
    pause: async (ref) => (changeState(ref, "paused") ? ok : { is: "missing" }),
    resume: async (ref) =>
      changeState(ref, "running") ? { is: "ok", value: {} } : { is: "missing" },
    snapshot: () => Promise.reject(new UnsupportedError("noop", "snapshot")),
    removeSnapshot: async () => ok,
    terminate: async (ref) => {
      sandboxes.delete(ref)
      return ok
    },
    keepAlive: async (ref) => (sandboxes.has(ref) ? ok : { is: "missing" }),
    address: async () => ({
      is: "refused",
      why: "the provider noop has no sandboxes to connect to",
    }),
    exec: () => Promise.reject(new UnsupportedError("noop", "exec")),
    removeVolume: async () => ok,
    health: async () => ok,
  }
}

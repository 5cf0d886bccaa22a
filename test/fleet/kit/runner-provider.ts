/** A provider whose sandboxes are runners without an agent in this process: they connect with the environment of the spec. */
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createNoopProvider } from "../../../src/fleet/providers/noop.ts"
import type { SandboxProvider, SandboxSpec } from "../../../src/fleet/providers/contract.ts"
import { type FakeRunner, startFakeRunner } from "../../hub/kit/fake-runner.ts"

export interface RunnerProvider extends SandboxProvider {
  /** The specs of all sandboxes that were created, in order. */
  readonly specs: readonly SandboxSpec[]
  readonly snapshots: ReadonlySet<string>
  readonly removedVolumes: readonly string[]
  /** The runner of a session's present sandbox. */
  readonly runnerOf: (session: string) => FakeRunner | undefined
  readonly stop: () => Promise<void>
}

/** `accepts`: frames that the next runners know beyond those of every runner. */
export const runnerProvider = (
  accepts: () => readonly string[] = () => ["git-credentials"],
): RunnerProvider => {
  const inner = createNoopProvider(Date.now)
  const folder = mkdtempSync(join(tmpdir(), "runner-provider-"))
  const specs: SandboxSpec[] = []
  const runners = new Map<string, FakeRunner>()
  const snapshots = new Set<string>()
  const removedVolumes: string[] = []
  const stopRunner = async (ref: string) => {
    const runner = runners.get(ref)
    runners.delete(ref)
    await runner?.stop()
  }
  return {
    ...inner,
    can: { ...inner.can, startsRunner: true, snapshot: "copy", volumes: true },
    specs,
    snapshots,
    removedVolumes,
    runnerOf: (session) =>
      specs
        .filter((spec) => spec.session === session)
        .map(({ name }) => runners.get(name))
        .find((runner) => runner !== undefined),
    create: async (spec, limit) => {
      if (spec.image.kind === "snapshot" && !snapshots.has(spec.image.id)) return { is: "missing" }
      specs.push(spec)
      const made = await inner.create({ ...spec, volumes: [] }, limit)
      const { DO_WS_URL = "", RUNNER_TOKEN = "" } = spec.environment
      runners.set(
        spec.name,
        startFakeRunner({
          url: DO_WS_URL,
          token: RUNNER_TOKEN,
          stateDir: join(folder, spec.name),
          answer: ({ content }) => [`heard: ${content}`],
          // A test ends these turns itself, with `work`.
          eager: ({ content }) => !content.startsWith("wait"),
          accepts: accepts(),
        }),
      )
      return made
    },
    address: async (ref) => ({
      is: "ok",
      value: { url: `https://${ref}.sandboxes.example/`, headers: {} },
    }),
    snapshot: async (ref) => {
      if ((await inner.look(ref)).is !== "ok") return { is: "missing" }
      const id = `snapshot-of-${ref}`
      snapshots.add(id)
      return { is: "ok", value: { id } }
    },
    removeSnapshot: async (id) => {
      snapshots.delete(id)
      return { is: "ok", value: undefined }
    },
    removeVolume: async (name) => {
      removedVolumes.push(name)
      return { is: "ok", value: undefined }
    },
    terminate: async (ref) => {
      await stopRunner(ref)
      return inner.terminate(ref)
    },
    stop: async () => {
      for (const ref of runners.keys()) await stopRunner(ref)
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

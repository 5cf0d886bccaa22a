/** Carries out the calls of a sandbox's life at its provider. Every exception is an answer in doubt. */
import { SNAPSHOT_CALL_MS } from "../wire/snapshot-times.ts"
import { type Answer, type Call, isTouched, type Life } from "./core/life.ts"
import type {
  ImageChoice,
  ProviderResult,
  SandboxCommand,
  SandboxInfo,
  SandboxProvider,
  SandboxSpec,
} from "./providers/contract.ts"
import { runnerHealth } from "./runner-health.ts"
import type { StoredSession } from "./store/ports.ts"

export interface PerformOptions {
  readonly provider: SandboxProvider
  readonly deployment: string
  readonly idleMs: number
  readonly lifeMs: number
  /** The version of this program, which is that of the runtime in the image. */
  readonly version: string
  /** The spec of the next sandbox. Its runner token is valid from now on, and no earlier one. */
  readonly specOf: (
    session: StoredSession,
    call: Call & { readonly do: "create" },
  ) => Promise<SandboxSpec>
  /** The provider does not have this base snapshot any more. */
  readonly baseGone?: ((id: string) => Promise<void>) | undefined
}

const CREATE_MS = 5 * 60_000
const HOOK_MS = 60_000
const VERSION_MS = 10_000

const asAnswer = <T>(
  result: ProviderResult<T>,
  read: (value: T) => Extract<Answer, { is: "ok" }>["value"] = () => ({}),
): Answer => (result.is === "ok" ? { is: "ok", value: read(result.value) } : result)

const nameOf = ({ kind, id }: ImageChoice): string => `${kind}:${id}`

/** A hook that fails in the sandbox is an answer in doubt: it is repeated. */
const runHook = async (
  provider: SandboxProvider,
  ref: string,
  argv: SandboxCommand["argv"],
): Promise<Answer> => {
  const result = await provider.exec(ref, { argv }, AbortSignal.timeout(HOOK_MS))
  if (result.is !== "ok" || result.value.exitCode === 0) return asAnswer(result)
  return { is: "unknown", why: `${argv.join(" ")} ended with ${result.value.exitCode}` }
}

const find = async (options: PerformOptions, session: string): Promise<Answer> => {
  const found: SandboxInfo[] = []
  const { provider, deployment } = options
  for await (const info of provider.list({ deployment, session })) found.push(info)
  return { is: "ok", value: { found } }
}

/**
 * The version of the runtime that the next sandbox gets with this disk. A disk that was restored may have an older one than
 * this program, or the same if the provider brings the program itself, so the sandbox is asked.
 */
const runtimeVersion = async (
  { provider, version }: PerformOptions,
  { snapshot }: Life,
  ref: string,
): Promise<string | undefined> => {
  const made = snapshot ? snapshot.version : version
  if (!provider.can.exec) return made
  const command = { argv: ["sandpiper", "--version"] }
  const said = await provider
    .exec(ref, command, AbortSignal.timeout(VERSION_MS))
    .catch(() => undefined)
  const text = said?.is === "ok" && said.value.exitCode === 0 ? said.value.stdout : ""
  return /^sandpiper (\d[\w.-]{0,60})/.exec(text)?.[1] ?? made
}

/** Only the runner of a sandbox with work is asked: an unused sandbox is replaced. */
const look = async (provider: SandboxProvider, life: Life, ref: string): Promise<Answer> => {
  const seen = await provider.look(ref)
  const isUnlinked = life.phase === "booting" && isTouched(life)
  if (seen.is !== "ok" || seen.value.state !== "running" || !isUnlinked)
    return asAnswer(seen, (info) => ({ info }))
  const health = await runnerHealth(provider, ref)
  return { is: "ok", value: { info: seen.value, health } }
}

const attempt = async (
  options: PerformOptions,
  session: StoredSession,
  call: Call,
): Promise<Answer> => {
  const { provider, lifeMs } = options
  const { idleMs = options.idleMs } = session.life
  switch (call.do) {
    case "create": {
      const spec = await options.specOf(session, call)
      const limit = AbortSignal.timeout(CREATE_MS)
      const made = await provider.create(spec, limit)
      if (made.is !== "missing" || spec.image.kind !== "base")
        return asAnswer(made, (one) => ({ ...one, image: nameOf(spec.image) }))
      // Without the base snapshot the start takes longer, and nothing else.
      await options.baseGone?.(spec.image.id)
      const image = { kind: "image", id: options.version } as const
      const again = await provider.create({ ...spec, image }, limit)
      return asAnswer(again, (one) => ({ ...one, image: nameOf(image) }))
    }
    case "find":
      return find(options, session.id)
    case "probe":
      return look(provider, session.life, call.ref)
    case "pause":
      return asAnswer(await provider.pause(call.ref))
    case "resume":
      return asAnswer(await provider.resume(call.ref, { idleMs, lifeMs }), (value) => value)
    case "prepare":
      return runHook(provider, call.ref, ["sandpiper", "hook", "pre-snapshot"])
    case "release":
      return runHook(provider, call.ref, ["sandpiper", "hook", "post-snapshot"])
    case "restart":
      return runHook(provider, call.ref, ["/start.sh"])
    case "snapshot": {
      const version = await runtimeVersion(options, session.life, call.ref)
      const limit = AbortSignal.timeout(SNAPSHOT_CALL_MS)
      const how = { ends: call.ends === true }
      const saved = await provider.snapshot(call.ref, "disk", limit, how)
      return asAnswer(saved, ({ id, isPaused }) => ({
        snapshot: { id, ...(version !== undefined && { version }) },
        ...(isPaused && { isPaused }),
      }))
    }
    case "terminate":
      return asAnswer(await provider.terminate(call.ref))
  }
}

export const perform = async (
  options: PerformOptions,
  session: StoredSession,
  call: Call,
): Promise<Answer> => {
  try {
    return await attempt(options, session, call)
  } catch (error) {
    return { is: "unknown", why: error instanceof Error ? error.message : String(error) }
  }
}

/**
 * Routes for another session agent that starts and stops sandboxes itself. It names the address and the tokens of the
 * runner's link. These sessions are not in the hub, so only these calls put them to sleep.
 */
import type { z } from "zod"
import { bodies, restoreBody } from "../core/bodies.ts"
import { refuseVariables } from "../core/environment.ts"
import { isReserved } from "../../settings/reaches.ts"
import { isGivenUp } from "../core/life.ts"
import { lacksSnapshot } from "../core/life-answers.ts"
import { isSharedVolume, workspaceVolume } from "../core/names.ts"
import type { RouteName } from "../core/routes.ts"
import type { SandboxInfo } from "../providers/contract.ts"
import type { StoredSession } from "../store/ports.ts"
import {
  ApiError,
  type ApiParts,
  gatewayUrlOf,
  type Handler,
  MAX_WAIT_MS,
  readBody,
  refuseAboveQuota,
  refuseUnsaved,
} from "./api-call.ts"

type Name = Extract<
  RouteName,
  | "create-session"
  | "restore-session"
  | "terminate-session"
  | "hibernate-session"
  | "session-status"
  | "delete-workspace"
>

const STATUS_OF = {
  starting: "running",
  running: "running",
  paused: "paused",
  stopped: "terminated",
  dead: "terminated",
} as const satisfies Readonly<Record<SandboxInfo["state"], string>>

/** Whether the sandbox that exists is the one that this call asks for. It has the variables that it was started with. */
const isSame = (
  { environment, life }: StoredSession,
  wanted: {
    readonly environment: Readonly<Record<string, string>>
    readonly snapshot: string | undefined
    readonly idleMs: number | undefined
  },
  usualIdleMs: number,
): boolean =>
  [...new Set([...Object.keys(environment), ...Object.keys(wanted.environment)])].every(
    (name) => environment[name] === wanted.environment[name],
  ) &&
  (wanted.snapshot === undefined || life.snapshot?.id === wanted.snapshot) &&
  (wanted.idleMs === undefined || (life.idleMs ?? usualIdleMs) === wanted.idleMs)

export const backendRoutes = (parts: ApiParts): Readonly<Record<Name, Handler>> => {
  const { keeper, store, provider } = parts
  /** The session whose sandbox this is now. */
  const withSandbox = async (sandboxId: string): Promise<StoredSession | undefined> => {
    const found = await store.findRef(sandboxId)
    return found?.kind === "external" ? found : undefined
  }
  /** Whether this is a former sandbox of a session of another session agent. */
  const wasOurs = async (sandboxId: string): Promise<boolean> => {
    const record = await store.recordOf(sandboxId)
    if (record?.endedAt === undefined) return false
    return (await store.find(record.session))?.kind === "external"
  }
  const finished = (sandboxId: string) =>
    new ApiError(409, "already-finished", `the sandbox ${sandboxId} has ended`)

  const until = async (
    session: string,
    holds: (session: StoredSession) => boolean,
    what: string,
  ): Promise<StoredSession> => {
    const limit = AbortSignal.timeout(MAX_WAIT_MS)
    const found = await keeper.waitFor(session, (row) => holds(row) || isGivenUp(row.life), limit)
    if (found && holds(found)) return found
    const why = found?.life.lastError ?? "it takes longer than expected"
    throw new ApiError(503, "not-done", `${what}: ${why}`, 10)
  }

  /** A session whose sandbox uses the volume, or will. */
  const userOf = async (volume: string, session: string): Promise<StoredSession | undefined> => {
    const sessions = isSharedVolume(volume) ? await store.present() : [await store.find(session)]
    return sessions.find(
      (one) =>
        one !== undefined &&
        workspaceVolume(one.id) === volume &&
        (one.life.ref !== undefined || one.life.pending !== undefined),
    )
  }

  /** The sandbox may have ended by itself without the fleet having seen it yet. */
  const withoutEnded = async (session: StoredSession): Promise<StoredSession> => {
    const { id, life } = session
    if (life.ref === undefined) return session
    const look = await provider.look(life.ref)
    const hasEnded = look.is === "missing" || (look.is === "ok" && look.value.state === "dead")
    if (!hasEnded) return session
    await keeper.seen(id, [])
    return until(id, (row) => row.life.ref !== life.ref, "the sandbox of before has not ended")
  }

  const start = async (
    given: z.output<(typeof bodies)["create-session"]>,
    snapshot: string | undefined,
  ) => {
    const refusal = refuseVariables(given.envVars, isReserved)
    if (refusal !== undefined) throw new ApiError(400, "bad-request", `envVars: ${refusal}`)
    const session = {
      id: given.sessionId,
      tenant: `user:${given.userId}`,
      kind: "external" as const,
      provider: provider.name,
      environment: {
        ...given.envVars,
        DO_WS_URL: given.doWsUrl,
        RUNNER_TOKEN: given.runnerToken,
        JWT_SECRET: given.jwtSecret,
        ...(given.personaFiles && { PERSONA_FILES_JSON: JSON.stringify(given.personaFiles) }),
      },
    }
    const stored = await store.find(session.id)
    if (stored && (stored.kind !== "external" || stored.tenant !== session.tenant))
      throw new ApiError(409, "taken", `the session ${session.id} belongs to another session agent`)
    const known = stored && (await withoutEnded(stored))
    await refuseAboveQuota(parts, known ?? session)
    const generation = known?.life.generation ?? 0
    // Without a sandbox the record is made anew, with the tokens of this call. The numbers of sandboxes go on.
    const isWithout = known?.life.ref === undefined && !known?.life.pending
    const { idleTimeoutSeconds: idle } = given
    const idleMs = idle === undefined ? undefined : idle * 1000
    const { environment } = session
    // Its runner would never connect with the tokens of this call, or lack its variables.
    if (known && !isWithout && !isSame(known, { environment, snapshot, idleMs }, parts.idleMs))
      throw new ApiError(
        409,
        "has-sandbox",
        `the session ${session.id} has a sandbox with another link, other variables, another idle time or another snapshot: terminate or hibernate it first`,
      )
    const add = isWithout ? keeper.addAgain : keeper.add
    await add(session, {
      generation,
      ...(snapshot !== undefined && { snapshot }),
      ...(idleMs !== undefined && { idleMs }),
    })
    await keeper.want(session.id, "running")
    const isMade = ({ life }: StoredSession) => life.phase === "running" && life.ref !== undefined
    const made = await until(
      session.id,
      (row) => isMade(row) || (snapshot !== undefined && lacksSnapshot(row.life)),
      "the sandbox was not started",
    )
    if (!isMade(made))
      throw new ApiError(404, "no-snapshot", `the snapshot ${snapshot} does not exist`)
    const gateway = await gatewayUrlOf(provider, made)
    const at = (path: string) => (gateway === null ? "" : `${gateway}${path}`)
    return {
      sandboxId: made.life.ref,
      tunnelUrls: {
        opencode: at("/opencode"),
        gateway: at(""),
        vscode: at("/vscode"),
        vnc: at("/vnc"),
        ttyd: at("/ttyd"),
      },
    }
  }

  return {
    "create-session": async ({ body }) =>
      start(readBody(bodies["create-session"], body), undefined),
    "restore-session": async ({ body }) => {
      const { snapshotImageId, ...given } = readBody(restoreBody, body)
      return start(given, snapshotImageId)
    },
    "terminate-session": async ({ body }) => {
      const { sandboxId } = readBody(bodies.sandboxId, body)
      const session = await withSandbox(sandboxId)
      if (session) {
        await keeper.want(session.id, "ended")
        await until(session.id, ({ life }) => life.phase === "ended", "the sandbox was not ended")
      } else if (!(await wasOurs(sandboxId))) throw finished(sandboxId)
      return { success: true }
    },
    "hibernate-session": async ({ body }) => {
      const { sandboxId } = readBody(bodies.sandboxId, body)
      const session = await withSandbox(sandboxId)
      if (session) {
        refuseUnsaved(provider)
        await keeper.want(session.id, "asleep", true)
        await until(session.id, ({ life }) => life.ref !== sandboxId, "no snapshot was made")
      }
      // Also of an earlier call whose answer was lost, or came before the snapshot was made. A sandbox that ended by itself
      // has none: what it was made from does not have its work.
      const made = await store.snapshotOf(sandboxId)
      if (!made || (await store.find(made.session))?.kind !== "external") throw finished(sandboxId)
      return { snapshotImageId: made.id }
    },
    "session-status": async ({ body }) => {
      const { sandboxId } = readBody(bodies.sandboxId, body)
      const look = await provider.look(sandboxId)
      if (look.is === "missing") return { status: "terminated" }
      // A provider that refuses to say it, for example because of its key, has not said that the sandbox is gone.
      if (look.is !== "ok")
        throw new ApiError(503, "unknown", `the state of the sandbox is not known: ${look.why}`, 5)
      return { status: STATUS_OF[look.value.state] }
    },
    "delete-workspace": async ({ body }) => {
      const { sessionId } = readBody(bodies["delete-workspace"], body)
      const volume = workspaceVolume(sessionId)
      const user = await userOf(volume, sessionId)
      if (user)
        throw new ApiError(
          409,
          "has-sandbox",
          `a sandbox of the session ${user.id} uses the volume: terminate it first`,
        )
      const removed = await provider.removeVolume(volume)
      if (removed.is !== "ok" && removed.is !== "missing")
        throw new ApiError(503, "not-done", `the volume was not deleted: ${removed.why}`, 30)
      return { success: true }
    },
  }
}

/** Routes about one sandbox: its status, and the verbs that change it. */
import { costOf, counted, type SandboxRecord } from "../core/history.ts"
import { isGivenUp } from "../core/life.ts"
import type { RouteName } from "../core/routes.ts"
import type { StoredSession } from "../store/ports.ts"
import {
  type ApiParts,
  flagOf,
  type Handler,
  MAX_WAIT_MS,
  refuseAboveQuota,
  refuseAsleepElsewhere,
  refuseEnded,
  refuseUnsaved,
  viewOf,
  wake,
} from "./api-call.ts"

const verbs = {
  pause: { wanted: "asleep", deep: false, holds: ["paused", "absent", "creating"] },
  hibernate: { wanted: "asleep", deep: true, holds: ["absent", "creating"] },
  resume: { wanted: "running", deep: false, holds: ["running"] },
  terminate: { wanted: "ended", deep: false, holds: ["ended"] },
} as const

type Verb = keyof typeof verbs

const HISTORY = 500

const round = (value: number, digits: number): number => Number(value.toFixed(digits))

const recordView = (record: SandboxRecord) => {
  const cost = costOf(record)
  return {
    generation: record.generation,
    provider: record.provider,
    providerSandboxId: record.ref,
    image: record.image ?? null,
    createdAt: record.createdAt,
    endedAt: record.endedAt ?? null,
    whyEnded: record.whyEnded ?? null,
    seconds: round(record.seconds, 3),
    ...(cost !== undefined && { cost: round(cost, 6) }),
  }
}

export const sandboxRoutes = (
  parts: ApiParts,
): Readonly<Record<Verb | Extract<RouteName, "status" | "history" | "forget">, Handler>> => {
  const { keeper, store, hub, provider, now } = parts
  const change =
    (verb: Verb): Handler =>
    async ({ session, url }) => {
      const waits = flagOf(url, "wait")
      if (verb !== "terminate") refuseEnded(session)
      if (verb === "hibernate") refuseUnsaved(provider)
      if (verb === "resume") refuseAsleepElsewhere(session)
      if (verb === "resume" && session.life.phase !== "running")
        await refuseAboveQuota(parts, session)
      const { wanted, deep, holds } = verbs[verb]
      // The session must not take prompts that no sandbox would ever get.
      if (verb === "terminate" && session.kind !== "external")
        await hub.end(session.id, "ended by a caller of the fleet")
      const changed =
        verb === "resume" ? await wake(parts, session) : await keeper.want(session.id, wanted, deep)
      if (!waits) return viewOf(changed ?? session)
      const reached = ({ life }: StoredSession) =>
        !life.pending && ((holds as readonly string[]).includes(life.phase) || isGivenUp(life))
      const limit = AbortSignal.timeout(MAX_WAIT_MS)
      return viewOf((await keeper.waitFor(session.id, reached, limit)) ?? session)
    }
  return {
    status: async ({ session }) => {
      const { ref } = session.life
      const disk = ref === undefined ? undefined : provider.disks?.report(ref)
      return { ...viewOf(session), ...(disk && { disk }) }
    },
    // An earlier session of this id may have belonged to another owner.
    history: async ({ session }) => {
      const records = await store.history(session.id, session.tenant, HISTORY)
      const sandboxes = records.map((record) => recordView(counted(record, now())))
      return { sessionId: session.id, sandboxes }
    },
    pause: change("pause"),
    hibernate: change("hibernate"),
    resume: change("resume"),
    terminate: change("terminate"),
    forget: async ({ session }) => {
      await store.forget(session.id, now())
      return { forgotten: session.id }
    },
  }
}

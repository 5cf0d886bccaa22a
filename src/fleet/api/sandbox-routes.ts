/** Routes about one sandbox: its status, and the verbs that change it. */
import type { RouteName } from "../core/routes.ts"
import type { StoredSession } from "../store/ports.ts"
import { type ApiParts, type Handler, MAX_WAIT_MS, refuseEnded, viewOf } from "./api-call.ts"

const verbs = {
  pause: { wanted: "asleep", deep: false, holds: ["paused", "absent"] },
  hibernate: { wanted: "asleep", deep: true, holds: ["absent"] },
  resume: { wanted: "running", deep: false, holds: ["running"] },
  terminate: { wanted: "ended", deep: false, holds: ["ended"] },
} as const

type Verb = keyof typeof verbs

export const sandboxRoutes = ({
  keeper,
  store,
  hub,
}: ApiParts): Readonly<Record<Verb | Extract<RouteName, "status" | "forget">, Handler>> => {
  const change =
    (verb: Verb): Handler =>
    async ({ session, url }) => {
      if (verb !== "terminate") refuseEnded(session)
      const { wanted, deep, holds } = verbs[verb]
      // The session must not take prompts that no sandbox would ever get.
      if (verb === "terminate" && session.kind !== "external")
        await hub.end(session.id, "ended by a caller of the fleet")
      const changed = await keeper.want(session.id, wanted, deep)
      if (!url.searchParams.has("wait")) return viewOf(changed ?? session)
      const reached = ({ life }: StoredSession) =>
        !life.pending && ((holds as readonly string[]).includes(life.phase) || life.failed)
      const limit = AbortSignal.timeout(MAX_WAIT_MS)
      return viewOf((await keeper.waitFor(session.id, reached, limit)) ?? session)
    }
  return {
    status: async ({ session }) => viewOf(session),
    pause: change("pause"),
    hibernate: change("hibernate"),
    resume: change("resume"),
    terminate: change("terminate"),
    forget: async ({ session }) => {
      await store.forget(session.id)
      return { forgotten: session.id }
    },
  }
}

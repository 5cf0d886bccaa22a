/** Makes and changes sessions over the HTTP API: their owner, title, config and the runner's token. */
import { z } from "zod"
import type { Sender } from "./access/guarded-clients.ts"
import type { HostedSession } from "./access/guarded-clients.ts"
import { LOCAL_OWNER, type Owner, parseOwner } from "./access/ownership.ts"
import { clientConfig, modelId } from "../wire/frames/shapes.ts"
import type { HttpApiHost } from "./http-api.ts"
import { errorResponse, parseBody } from "./http-responses.ts"
import { hashOf } from "./keys.ts"
import { type PreparedSession, workspaces } from "./local-sessions-port.ts"
import type { SandboxWish } from "./session/ports.ts"
import type { Session } from "./session/session.ts"

export interface Provision {
  /** The parent session, its parent, and so on; only for a new session. */
  readonly ancestors?: readonly string[] | undefined
  /** The person who makes the session; only for a new session. */
  readonly creator?: string | undefined
  /** The name by which other sessions of the owner can write to this one. */
  readonly handle?: string | undefined
  readonly title?: string | undefined
  /** A title until the agent gives it another one. */
  readonly firstTitle?: string | undefined
  /** The model of prompts that name none. */
  readonly model?: string | undefined
  readonly config?: z.output<typeof clientConfig> | undefined
  /** The runner's token itself is never stored. */
  readonly runnerTokenHash?: string | undefined
  /** What the sandbox of a new session is made with. */
  readonly wish?: SandboxWish | undefined
}

/** Sessions that exist without an owner, with a running sandbox. */
export interface WarmSessions {
  /**
   * One for this owner, which no other request gets; undefined: there is none. It is given or put back afterwards. `creator`: the
   * person who makes the session.
   */
  readonly take: (owner: Owner, creator: string | undefined) => Promise<string | undefined>
  readonly give: (session: string) => Promise<void>
  readonly putBack: (session: string) => Promise<void>
}

const MAX_CONFIG = 500_000

const bodyFields = {
  owner: z
    .string()
    .refine((text) => parseOwner(text) !== undefined, "expected user:<sub> or org:<id>")
    .optional(),
  /** Another session of the same owner: the two reach each other. Only for a new session. */
  parent: z.string().optional(),
  handle: z
    .string()
    .regex(/^@?[\w.-]{1,64}$/, "expected 1 to 64 letters, digits, _, . or -")
    .optional(),
  title: z.string().optional(),
  model: modelId.optional(),
  /** A new session on the hub's own machine: in its directory, or in a git worktree of its own. */
  workspace: z.enum(workspaces).optional(),
  config: clientConfig
    .refine(
      (config) => JSON.stringify(config).length <= MAX_CONFIG,
      `at most ${MAX_CONFIG} characters can be stored`,
    )
    .optional(),
  runnerToken: z.string().min(16, "expected at least 16 characters").optional(),
}

const body = z.strictObject(bodyFields, {
  error: ({ code, keys }) =>
    code === "unrecognized_keys"
      ? `${String(keys)}: unknown field: expected ${Object.keys(bodyFields).join(", ")}`
      : undefined,
})

const provisionOf = async ({
  handle,
  title,
  model,
  config,
  runnerToken,
}: z.output<typeof body>): Promise<Provision> => ({
  handle,
  title,
  model,
  config,
  runnerTokenHash: runnerToken === undefined ? undefined : await hashOf(runnerToken),
})

/** Applies a provision to a session of this process. */
export const applyProvision = async (
  session: Session,
  { ancestors, title, firstTitle, model, config, runnerTokenHash, wish }: Provision,
): Promise<void> => {
  if (wish) session.setWish(wish)
  const [parent] = ancestors ?? []
  if (parent !== undefined) session.setParent(parent)
  if (config !== undefined && Object.keys(config).length > 0) {
    const { tools, ...rest } = config
    // A new session from the warm pool has the tools that its hub switches: the client's are added to them.
    const reply =
      ancestors === undefined
        ? session.configure(config)
        : session.configure(rest, { patch: { tools } })
    if (!reply.ok) throw new Error(reply.error.message)
  }
  if (firstTitle !== undefined) session.setTitle(firstTitle)
  if (title !== undefined) session.rename(title)
  if (model !== undefined) session.setModel(model)
  if (runnerTokenHash !== undefined) session.setRunnerToken(runnerTokenHash)
}

const creatorOf = (principal: Sender["principal"]): string | undefined =>
  principal.kind === "person" ? principal.sub : undefined

/** `POST /sessions`: the hub makes the id. The caller has been allowed to create a session for `owner`. */
export const createSession = async (
  host: HttpApiHost,
  owner: Owner,
  request: Request,
  sender: Sender,
): Promise<Response> => {
  const parsed = await parseBody(request, body)
  if (parsed instanceof Response) return parsed
  const { parent, runnerToken, owner: named = owner } = parsed.data
  if (named !== owner)
    return errorResponse(400, "owner: name another owner in the address: POST /sessions?owner=")
  // A child's sandbox is started with variables of its own, and a runner's token is for another sandbox.
  const canBeWarm = parent === undefined && runnerToken === undefined
  const warm = canBeWarm
    ? await host.warmSessions?.take(owner, creatorOf(sender.principal))
    : undefined
  if (warm === undefined)
    return create(host, crypto.randomUUID(), owner, parsed.data, sender, "route:create")
  let isGiven = false
  try {
    return await create(host, warm, owner, parsed.data, sender, "route:create", async () => {
      isGiven = true
      await host.warmSessions?.give(warm)
    })
  } finally {
    if (!isGiven) await host.warmSessions?.putBack(warm)
  }
}

/** `PUT /sessions/:id` of a new session, by the operator. */
export const createNamed = async (
  host: HttpApiHost,
  id: string,
  request: Request,
  sender: Sender,
): Promise<Response> => {
  const parsed = await parseBody(request, body)
  if (parsed instanceof Response) return parsed
  const owner = parseOwner(parsed.data.owner ?? "") ?? LOCAL_OWNER
  return create(host, id, owner, parsed.data, sender, "route:create-named")
}

const create = async (
  host: HttpApiHost,
  id: string,
  owner: Owner,
  fields: z.output<typeof body>,
  { principal, from }: Sender,
  action: "route:create" | "route:create-named",
  /** Called when the session may be made. */
  allowed: () => Promise<void> = async () => {},
): Promise<Response> => {
  const prepared = await prepareWorkspace(host, id, owner, fields)
  if (prepared instanceof Response) return prepared
  const added = await host.directory.addSession(id, owner, fields.parent)
  if (!added.ok) {
    await prepared?.undo()
    if ("taken" in added)
      return errorResponse(409, `session ${id} is being made by another request`)
    if ("noParent" in added) return errorResponse(404, `session ${fields.parent} does not exist`)
    return errorResponse(429, added.sentence, added.retryAfterSeconds)
  }
  const { ancestors } = added
  await allowed()
  await host.directory.appendAudit({ owner, principal, action, session: id, from })
  const creator = creatorOf(principal)
  const wish = fields.model === undefined ? undefined : { model: fields.model }
  const provision = { ...(await provisionOf(fields)), ancestors, creator, wish }
  await host.provision(id, owner, provision).catch(async (error: unknown) => {
    await prepared?.undo()
    throw error
  })
  await prepared?.start()
  return Response.json(
    { ok: true, session: id, owner, ...(await keyFields(host, id, fields, principal.kind)) },
    { status: 201 },
  )
}

/** The directory of a session on this machine; a refusal changes nothing. Undefined when the session asks for none. */
const prepareWorkspace = async (
  { localSessions }: HttpApiHost,
  id: string,
  owner: Owner,
  { workspace, model, runnerToken }: z.output<typeof body>,
): Promise<PreparedSession | Response | undefined> => {
  if (workspace === undefined) return undefined
  if (localSessions === undefined)
    return errorResponse(
      400,
      "workspace: this hub has no directory of its own for sessions: leave it out, and start a sandbox for the session",
    )
  if (!localSessions.isFor(owner))
    return errorResponse(
      403,
      "workspace: this hub starts sessions on its own machine for its operator only",
    )
  if (runnerToken !== undefined)
    return errorResponse(400, "workspace: the hub starts this runner: leave runnerToken out")
  const prepared = await localSessions.prepare(id, { workspace, model })
  return prepared.ok ? prepared : errorResponse(prepared.status, `workspace: ${prepared.problem}`)
}

/** `PUT /sessions/:id` of a session that exists. Its owner cannot be changed. */
export const updateSession = async (
  host: HttpApiHost,
  { id, access }: HostedSession,
  request: Request,
  { principal }: Sender,
): Promise<Response> => {
  const parsed = await parseBody(request, body)
  if (parsed instanceof Response) return parsed
  const { owner = access.owner() } = parsed.data
  if (owner !== access.owner())
    return errorResponse(400, "owner: the owner of a session cannot be changed")
  if (parsed.data.workspace !== undefined)
    return errorResponse(400, "workspace: it is chosen when the session is created")
  const [parent] = access.target().ancestors ?? []
  if (parsed.data.parent !== undefined && parsed.data.parent !== parent)
    return errorResponse(400, "parent: it is chosen when the session is created")
  await host.provision(id, access.owner(), await provisionOf(parsed.data))
  const more = await keyFields(host, id, parsed.data, principal.kind)
  return Response.json({ ok: true, session: id, owner, ...more }, { status: 201 })
}

/** The operator who sets a runner's token also starts the sandbox, which needs this session's gateway key. */
const keyFields = async (
  host: HttpApiHost,
  id: string,
  { runnerToken }: z.output<typeof body>,
  kind: string,
): Promise<{ readonly gatewayKey?: string }> => {
  const hosted = host.find(id)
  if (runnerToken === undefined || kind !== "operator" || !hosted) return {}
  const gatewayKey = await host.gatewayKey(hosted)
  return gatewayKey === undefined ? {} : { gatewayKey }
}

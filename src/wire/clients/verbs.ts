/** What a client may say to a session, over a WebSocket or as the body of an HTTP request: one table, many readers. */
import { z } from "zod"
import { agentConfig, attachment, author, modelPreferences, someChannel } from "../frames/shapes.ts"
import { permissionReply } from "../permission.ts"

const CONTENT_CHARACTERS = 400_000

const id = z.string().min(1).max(200)

const verb = <const Name extends string, Shape extends z.ZodRawShape>(
  name: Name,
  doc: string,
  shape: Shape,
) => ({
  name,
  doc,
  schema: z.object({ type: z.literal(name), clientRequestId: id.optional(), ...shape }),
})

const clientVerbs = [
  verb(
    "subscribe",
    "Get the session as it is, or what changed since `cursor`; then every change as it happens.",
    {
      cursor: z.int().nonnegative().optional(),
    },
  ),
  verb("prompt", "Queue a prompt. The same `clientRequestId` again is the same prompt.", {
    content: z.string().min(1, "must not be empty").max(CONTENT_CHARACTERS),
    model: z.string().optional(),
    modelPreferences: modelPreferences.optional(),
    attachments: z.array(attachment).max(20).optional(),
    ...someChannel,
    ...author,
  }),
  verb("abort", "Stop what runs, in one channel or in all; `queued` also empties the queue.", {
    ...someChannel,
    queued: z.boolean().optional(),
  }),
  verb("answer", "Answer a question. The first answer counts.", {
    id,
    answer: z.union([z.string(), z.boolean()], { error: "expected string or boolean" }),
  }),
  verb("permission", "Decide on a permission. The first decision counts.", {
    id,
    reply: permissionReply,
  }),
  verb("withdraw", "Take a prompt out of the queue before it is begun.", { id }),
  verb(
    "promote",
    "Move a queued prompt to the front; if the agent waits for an answer, it is the answer.",
    { id },
  ),
  verb("revert", "Undo a message and all that followed it.", { messageId: id }),
  verb("command", "Have the agent run one of its commands.", {
    command: z.string().min(1),
    args: z.string().optional(),
  }),
  verb("diff", "Ask for the changes in the workspace.", {}),
  verb("review", "Ask for a review of the changes.", {}),
  verb("new-session", "Give a channel a fresh conversation with the agent.", someChannel),
  verb("config", "Change the agent's settings; what is left out stays.", { config: agentConfig }),
  verb("delete-tunnel", "Take a tunnel down.", { name: z.string().min(1) }),
  verb("history", "Read messages older than those that are known.", {
    before: z.int().positive(),
    limit: z.int().min(1).max(200).optional(),
  }),
] as const

export type ClientMessage = z.output<(typeof clientVerbs)[number]["schema"]>
export type ClientVerb = ClientMessage["type"]
export type Client<Verb extends ClientVerb> = Extract<ClientMessage, { readonly type: Verb }>

export type Reply =
  | { readonly ok: true; readonly [field: string]: unknown }
  | { readonly ok: false; readonly error: { readonly code: RefusalCode; readonly message: string } }

export type RefusalCode =
  | "bad-request"
  | "not-found"
  | "too-late"
  | "conflict"
  | "no-runner"
  | "too-many"

const schemas: ReadonlyMap<string, z.ZodType<ClientMessage>> = new Map(
  clientVerbs.map(({ name, schema }) => [name, schema]),
)

/** The client's door: a message, or words that say what is wrong with it. */
export const parseClientMessage = (
  value: unknown,
):
  | { readonly ok: true; readonly message: ClientMessage }
  | { readonly ok: false; readonly problem: string } => {
  if (typeof value !== "object" || value === null)
    return { ok: false, problem: "expected an object" }
  const type = (value as { type?: unknown }).type
  const schema = typeof type === "string" ? schemas.get(type) : undefined
  if (!schema)
    return { ok: false, problem: `type: expected one of ${[...schemas.keys()].join(", ")}` }
  const parsed = schema.safeParse(value)
  if (parsed.success) return { ok: true, message: parsed.data }
  const [issue] = parsed.error.issues
  const where = issue?.path.join(".") ?? ""
  const what = (issue?.message ?? "malformed").replace(/^Invalid input: /, "")
  return { ok: false, problem: where === "" ? what : `${where}: ${what}` }
}

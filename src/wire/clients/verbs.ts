/** The client protocol: every message that a client may send to a session, over a WebSocket or as an HTTP body. */
import { z } from "zod"
import {
  attachment,
  author,
  clientConfig,
  configPatch,
  modelPreferences,
  optionalChannel,
} from "../frames/shapes.ts"
import { permissionReply } from "../permission.ts"

const MAX_CONTENT_CHARACTERS = 400_000

const id = z.string().min(1).max(200)
/** `<type>:<id>`, as events name a channel. */
const channelKey = z.string().min(1).max(400)

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
    "Get the current state of the session, or the changes since `cursor`, then every change as it happens. With `channel`, the snapshot has the messages of this channel only. With `access`, an `access` event first names the verbs that this client may use.",
    {
      cursor: z.int().nonnegative().optional(),
      access: z.boolean().optional(),
      channel: channelKey.optional(),
    },
  ),
  verb(
    "prompt",
    "Queue a prompt, or with `steer` join the running turn of its channel. A repeated `clientRequestId` is a duplicate and queues nothing.",
    {
      content: z.string().min(1, "must not be empty").max(MAX_CONTENT_CHARACTERS),
      model: z.string().optional(),
      modelPreferences: modelPreferences.optional(),
      attachments: z.array(attachment).max(20).optional(),
      steer: z.boolean().optional(),
      ...optionalChannel,
      ...author,
    },
  ),
  verb(
    "abort",
    "Cancel the running turn of one channel or of all; `queued` also empties the queue.",
    {
      ...optionalChannel,
      queued: z.boolean().optional(),
    },
  ),
  verb("answer", "Answer a question of the agent. The first answer counts.", {
    id,
    answer: z.union([z.string(), z.boolean()], { error: "expected string or boolean" }),
  }),
  verb("permission", "Grant or reject a permission. The first decision counts.", {
    id,
    reply: permissionReply,
  }),
  verb(
    "approve-execution",
    "Approve or deny the approval that a workflow execution of this session waits for. The first decision counts.",
    { executionId: id, approve: z.boolean(), reason: z.string().max(2000).optional() },
  ),
  verb("withdraw", "Remove a prompt from the queue before its turn starts.", { id }),
  verb(
    "promote",
    "Move a queued prompt to the front. If the agent waits for an answer, the prompt becomes the answer.",
    { id },
  ),
  verb("revert", "Undo a message and all later ones.", { messageId: id }),
  verb("command", "Run a command of the agent.", {
    command: z.string().min(1),
    args: z.string().optional(),
  }),
  verb("diff", "Request the changes in the workspace, of all files or of the file `path`.", {
    path: z.string().min(1).max(4096).optional(),
  }),
  verb("rename", "Give the session, or one channel of it, a title.", {
    title: z.string().trim().min(1).max(200),
    channel: channelKey.optional(),
  }),
  verb("seen", "Everything of the channel up to `rev` was seen.", {
    rev: z.int().nonnegative(),
    channel: channelKey,
  }),
  verb("search", "Find messages by a part of their text, newest first.", {
    query: z.string().min(1).max(200),
    channel: channelKey.optional(),
    limit: z.int().min(1).max(100).optional(),
  }),
  verb("tasks", "Read the tasks that the owner's sessions share.", {}),
  verb("memories", "Read the memories that the owner's sessions share.", {
    query: z.string().max(2000).optional(),
  }),
  verb("forget", "Delete a memory.", { id }),
  verb("review", "Request a review of the changes.", {}),
  verb("new-session", "Start a new agent session for a channel.", optionalChannel),
  verb(
    "config",
    "Change the agent's config. `config` replaces the fields that it has; `patch` changes single entries of `tools`, `providerKeys` and `customProviders`, and `null` removes one.",
    { config: clientConfig.optional(), patch: configPatch.optional() },
  ),
  verb("delete-tunnel", "Delete a tunnel.", { name: z.string().min(1) }),
  verb(
    "open",
    "Get a URL of the sandbox's gateway for one use within 60 s; `name` is that of the tunnel.",
    { what: z.enum(["vscode", "vnc", "terminal", "tunnel"]), name: z.string().min(1).optional() },
  ),
  verb("end", "End the session, its runner and its children.", {}),
  verb(
    "history",
    "Read messages older than the place `before`, newer than the place `after`, or around the message `around`.",
    {
      before: z.int().positive().optional(),
      after: z.int().positive().optional(),
      around: id.optional(),
      channel: channelKey.optional(),
      limit: z.int().min(1).max(200).optional(),
    },
  ),
] as const

export type ClientMessage = z.output<(typeof clientVerbs)[number]["schema"]>
export type ClientVerb = ClientMessage["type"]
export type Client<Verb extends ClientVerb> = Extract<ClientMessage, { readonly type: Verb }>

export const clientVerbNames: readonly ClientVerb[] = clientVerbs.map(({ name }) => name)

export type Reply =
  | { readonly ok: true; readonly [field: string]: unknown }
  | {
      readonly ok: false
      readonly error: {
        readonly code: RefusalCode
        readonly message: string
        /** With `too-many`: seconds to wait before the next attempt. */
        readonly retryAfter?: number
      }
    }

export type RefusalCode =
  | "bad-request"
  | "forbidden"
  | "not-found"
  | "too-late"
  | "conflict"
  | "no-runner"
  | "storage-full"
  | "too-many"

const schemas: ReadonlyMap<string, z.ZodType<ClientMessage>> = new Map(
  clientVerbs.map(({ name, schema }) => [name, schema]),
)

/** Says what the client asked for, and what there is. Over HTTP the verb is in the path, over a WebSocket in `type`. */
export const problemOfVerb = (asked: unknown, known: readonly string[]): string =>
  typeof asked === "string"
    ? `there is no verb ${JSON.stringify(asked.slice(0, 100))}: expected one of ${known.join(", ")}`
    : `the message names no verb in \`type\`: expected one of ${known.join(", ")}`

/** Checks a client's message. `problem` names the field and what is wrong with it. */
export const parseClientMessage = (
  value: unknown,
):
  | { readonly ok: true; readonly message: ClientMessage }
  | { readonly ok: false; readonly problem: string } => {
  if (typeof value !== "object" || value === null)
    return { ok: false, problem: "expected an object" }
  const type = (value as { type?: unknown }).type
  const schema = typeof type === "string" ? schemas.get(type) : undefined
  if (!schema) return { ok: false, problem: problemOfVerb(type, [...schemas.keys()]) }
  const parsed = schema.safeParse(value)
  if (parsed.success) return { ok: true, message: parsed.data }
  const [issue] = parsed.error.issues
  const where = issue?.path.join(".") ?? ""
  const what = (issue?.message ?? "malformed").replace(/^Invalid input: /, "")
  return { ok: false, problem: where === "" ? what : `${where}: ${what}` }
}

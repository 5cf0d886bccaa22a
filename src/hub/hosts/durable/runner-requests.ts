/** Handles the runner's requests in a deployment of Durable Objects: by the shared store, other sessions or the git host. */
import { z } from "zod"
import type { RequestFrame } from "../../../wire/frames/index.ts"
import { messageWithParts } from "../../../wire/clients/conversation.ts"
import { sessionStatus } from "../../session/session.ts"
import { guardRequest } from "../../access/guard-requests.ts"
import { type Owner, parseOwner } from "../../access/ownership.ts"
import { mailReaderOf } from "../../access/mail-reader.ts"
import { callObject, nothing } from "./object-calls.ts"
import { storeNameOf } from "./shared-store-object.ts"
import type { DurableEnvironment } from "./runtime-types.ts"
import { durableGit } from "./git.ts"
import { withGitRetries } from "../../handlers/git-retries.ts"
import type { SessionAccess } from "../../access/session-access.ts"
import { type OtherSession, createExternalHandlers } from "../../handlers/external-requests.ts"
import { durableChats } from "./chats.ts"
import { durableStorage } from "./environment.ts"
import { answerExternalRequest, Refusal } from "../../handlers/handler-table.ts"

const NO_SANDBOXES =
  "this deployment cannot start sandboxes: create a session and start a runner for it"
const NO_OTHER_CHECKOUT =
  "repoUrl, branch, ref: this deployment cannot start sandboxes: check the repository out in this session and run the workflow without them"

const optionalTarget = z
  .object({
    id: z.string(),
    owner: z.string().transform((text, context) => {
      const owner = parseOwner(text)
      if (owner === undefined) context.addIssue("not an owner")
      return owner ?? z.NEVER
    }),
    ancestors: z.array(z.string()),
  })
  .nullable()
const optionalResult = z.record(z.string(), z.unknown()).nullable()

type Access = Pick<SessionAccess, "runner" | "creator">

export const answerRunnerRequest = (
  environment: DurableEnvironment,
): ((access: Access, frame: RequestFrame) => Promise<Record<string, unknown>>) => {
  const { SESSIONS, SHARED_STORE } = environment
  const refuseSandbox = () => Promise.reject(new Refusal(NO_SANDBOXES))
  const otherSession = (session: string): OtherSession => {
    const call =
      <Schema extends z.ZodType>(name: string, result: Schema) =>
      (...args: readonly unknown[]) =>
        callObject(SESSIONS, session, result, name, args)
    return {
      status: call("status", sessionStatus),
      recent: call("recent", z.array(messageWithParts)),
      prompt: call("prompt", nothing),
      note: call("note", nothing),
      channels: call("channels", z.array(z.string())),
    }
  }
  const externalHandlersOf = (owner: Owner) =>
    createExternalHandlers({
      find: async (session) =>
        (await callObject(SESSIONS, session, z.boolean(), "exists", []))
          ? otherSession(session)
          : undefined,
      children: {
        spawn: refuseSandbox,
        of: () => [],
        mustOwn: () => {
          throw new Refusal(NO_SANDBOXES)
        },
        terminate: refuseSandbox,
        ended: async () => {},
        resume: async () => {},
        stop: async () => {},
        executionEnded: async () => {},
      },
      git: withGitRetries(durableGit(environment, owner), (caller, change) =>
        callObject(SHARED_STORE, storeNameOf(owner), nothing, "retryGit", [owner, caller, change]),
      ),
      storage: durableStorage(environment),
      chatProblem: durableChats(environment).problemOf,
    })
  return async (access, frame) => {
    const runner = access.runner()
    const { session, owner } = runner
    // Ending a child is refused for every id, because this host has no children.
    if (frame.type !== "terminate-child") {
      await guardRequest(
        runner,
        frame,
        async (id) => (await callObject(SESSIONS, id, optionalTarget, "target", [])) ?? undefined,
      )
    }
    if (frame.type === "workflow-run" && (frame.repoUrl ?? frame.branch ?? frame.ref) !== undefined)
      throw new Refusal(NO_OTHER_CHECKOUT)
    const store = storeNameOf(owner)
    return (
      (await callObject(SHARED_STORE, store, optionalResult, "answer", [
        store,
        session,
        frame,
        mailReaderOf(owner, access.creator()),
      ])) ??
      answerExternalRequest(externalHandlersOf(owner), frame, {
        session,
        requestId: frame.requestId,
      })
    )
  }
}

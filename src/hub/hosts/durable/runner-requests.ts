/** Handles the runner's requests in a deployment of Durable Objects: by the shared store, other sessions or the git host. */
import { z } from "zod"
import type { RequestFrame } from "../../../wire/frames/index.ts"
import { messageWithParts } from "../../../wire/clients/conversation.ts"
import { sessionStatus } from "../../session/session-facts.ts"
import { guardRequest } from "../../access/guard-requests.ts"
import { type Owner, parseOwner } from "../../access/ownership.ts"
import { mailReaderOf } from "../../access/mail-reader.ts"
import { callObject, nothing } from "./object-calls.ts"
import { storeNameOf } from "./shared-store-object.ts"
import type { DurableEnvironment } from "./runtime-types.ts"
import { durableGit } from "./git.ts"
import { withGitRetries } from "../../handlers/git-retries.ts"
import type { Directory } from "../../access/directory.ts"
import type { HostedSession } from "../../access/guarded-clients.ts"
import {
  createExternalHandlers,
  type ExternalHandlerOptions,
  type OtherSession,
} from "../../handlers/external-requests.ts"
import { runWorkflowInCheckout } from "../../handlers/workflow-in-checkout.ts"
import { durableChildren, NO_SANDBOXES } from "./children.ts"
import { hasFleet } from "./fleet.ts"
import { durableChats } from "./chats.ts"
import { durableStorage } from "./environment.ts"
import { answerExternalRequest, Refusal } from "../../handlers/handler-table.ts"

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
const personaList = z.array(z.record(z.string(), z.unknown()))
const optionalResult = z.record(z.string(), z.unknown()).nullable()

export const answerRunnerRequest = (
  environment: DurableEnvironment,
  directory: Directory,
): ((hosted: HostedSession, frame: RequestFrame) => Promise<Record<string, unknown>>) => {
  const { SESSIONS, SHARED_STORE } = environment
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
      hasPromptFrom: call("hasPromptFrom", z.boolean()),
    }
  }
  const externalHandlersOf = (owner: Owner, children: ExternalHandlerOptions["children"]) =>
    createExternalHandlers({
      find: async (session) =>
        (await callObject(SESSIONS, session, z.boolean(), "exists", []))
          ? otherSession(session)
          : undefined,
      children,
      personas: () => callObject(SHARED_STORE, storeNameOf(owner), personaList, "listPersonas", []),
      git: withGitRetries(
        durableGit(environment, owner, (session, pull) =>
          callObject(SESSIONS, session, nothing, "showPull", [pull]),
        ),
        (caller, change) =>
          callObject(SHARED_STORE, storeNameOf(owner), nothing, "retryGit", [
            owner,
            caller,
            change,
          ]),
      ),
      storage: durableStorage(environment),
      chatProblem: durableChats(environment).problemOf,
    })
  return async (hosted, frame) => {
    const { access } = hosted
    const runner = access.runner()
    const { session, owner } = runner
    if (frame.type === "terminate-child" && !hasFleet(environment)) throw new Refusal(NO_SANDBOXES)
    await guardRequest(
      runner,
      frame,
      async (id) => (await callObject(SESSIONS, id, optionalTarget, "target", [])) ?? undefined,
    )
    const children = durableChildren(environment, directory, hosted)
    const store = storeNameOf(owner)
    const reader = mailReaderOf(owner, access.creator())
    const inStore = async (of: string, asked: RequestFrame) =>
      (await callObject(SHARED_STORE, store, optionalResult, "answer", [
        store,
        of,
        asked,
        reader,
      ])) ?? undefined
    if (namesCheckout(frame) && !hasFleet(environment)) throw new Refusal(NO_OTHER_CHECKOUT)
    return (
      // The checkout of a session is in its sandbox: its origin is not known here.
      (await runWorkflowInCheckout(
        { children, origin: async () => undefined, answer: inStore },
        session,
        frame,
      )) ??
      (await inStore(session, frame)) ??
      answerExternalRequest(externalHandlersOf(owner, children), frame, {
        session,
        requestId: frame.requestId,
      })
    )
  }
}

const namesCheckout = (frame: RequestFrame): boolean =>
  frame.type === "workflow-run" && (frame.repoUrl ?? frame.branch ?? frame.ref) !== undefined

/** Handles the runner's requests in a deployment of Durable Objects: by the shared store, other sessions or the git host. */
import { z } from "zod"
import type { RequestFrame } from "../../../wire/frames/index.ts"
import { messageWithParts } from "../../../wire/clients/conversation.ts"
import { sessionStatus } from "../../session/session.ts"
import { guardRequest } from "../../access/guard-requests.ts"
import { parseOwner } from "../../access/ownership.ts"
import type { Runner } from "../../access/principal.ts"
import { callObject, nothing } from "./object-calls.ts"
import { storeNameOf } from "./shared-store-object.ts"
import type { DurableEnvironment } from "./runtime-types.ts"
import { createGitHost, githubApi } from "../../handlers/git-host.ts"
import { type OtherSession, createExternalHandlers } from "../../handlers/external-requests.ts"
import { durableChats } from "./chats.ts"
import { answerExternalRequest, Refusal } from "../../handlers/handler-table.ts"

const NO_SANDBOXES =
  "this deployment cannot start sandboxes: create a session and start a runner for it"
const NO_OTHER_CHECKOUT =
  "repoUrl, branch, ref: this deployment cannot start sandboxes: check the repository out in this session and run the workflow without them"
const NO_GIT = "no git host is configured: set the worker's secret GITHUB_TOKEN"

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

export const answerRunnerRequest = (
  environment: DurableEnvironment,
): ((runner: Runner, frame: RequestFrame) => Promise<Record<string, unknown>>) => {
  const { SESSIONS, SHARED_STORE, GITHUB_TOKEN, GITHUB_API_URL } = environment
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
  const externalHandlers = createExternalHandlers({
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
    git: createGitHost({
      call: GITHUB_TOKEN
        ? githubApi(GITHUB_API_URL || "https://api.github.com", GITHUB_TOKEN)
        : () => Promise.reject(new Refusal(NO_GIT)),
      origin: async () => undefined,
    }),
    chatProblem: durableChats(environment).problemOf,
    personas: () => [],
  })
  return async (runner, frame) => {
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
      (await callObject(SHARED_STORE, store, optionalResult, "answer", [store, session, frame])) ??
      answerExternalRequest(externalHandlers, frame, { session, requestId: frame.requestId })
    )
  }
}

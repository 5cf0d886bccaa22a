/** The runner's requests in a deployment of Durable Objects: from the common tables, other objects, or the git host. */
import type { RequestFrame } from "../../../wire/frames/index.ts"
import { callObject } from "./object-calls.ts"
import type { DurableEnvironment } from "./runtime-types.ts"
import { createGitHost, githubApi } from "../../handlers/git-host.ts"
import { type OtherSession, createExternalHandlers } from "../../handlers/external-requests.ts"
import { answerExternalRequest, Refusal } from "../../handlers/handler-table.ts"

const NO_SANDBOXES =
  "this deployment cannot start sandboxes by itself: make a session and start a runner for it"
const NO_GIT = "no git host is set up: give the worker a GITHUB_TOKEN"

export const durableAnswer = (
  environment: DurableEnvironment,
): ((session: string, frame: RequestFrame) => Promise<Record<string, unknown>>) => {
  const { SESSIONS, COMMONS, GITHUB_TOKEN } = environment
  const cannot = () => Promise.reject(new Refusal(NO_SANDBOXES))
  const otherSession = (session: string): OtherSession => {
    const call =
      <Result>(name: string) =>
      (...args: readonly unknown[]) =>
        callObject<Result>(SESSIONS, session, name, args)
    return {
      status: call("status"),
      recent: call("recent"),
      prompt: call("prompt"),
      note: call("note"),
      channels: call("channels"),
    }
  }
  const externalHandlers = createExternalHandlers({
    find: async (session) =>
      (await callObject<boolean>(SESSIONS, session, "exists", []))
        ? otherSession(session)
        : undefined,
    children: {
      spawn: cannot,
      of: () => [],
      mustOwn: () => {
        throw new Refusal(NO_SANDBOXES)
      },
      terminate: cannot,
      ended: async () => {},
      resume: async () => {},
      stop: async () => {},
    },
    git: createGitHost({
      call: GITHUB_TOKEN
        ? githubApi("https://api.github.com", GITHUB_TOKEN)
        : () => Promise.reject(new Refusal(NO_GIT)),
      origin: async () => undefined,
    }),
    personas: () => [],
  })
  return async (session, frame) =>
    (await callObject<Record<string, unknown> | null>(COMMONS, "", "answer", [session, frame])) ??
    answerExternalRequest(externalHandlers, frame, {
      session,
      requestId: frame.requestId,
    })
}

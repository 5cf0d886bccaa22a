/** Child sessions as the handlers of requests see them; each host starts them in its own way. */
import type { SandboxWish } from "../session/ports.ts"

export interface Task {
  readonly task: string
  readonly workspace: string
  readonly repoUrl?: string | undefined
  readonly branch?: string | undefined
  readonly ref?: string | undefined
  readonly title?: string | undefined
  readonly model?: string | undefined
}

type Later<T> = T | Promise<T>

export interface Children {
  /** Idempotent: the same request is the same child. */
  readonly spawn: (parent: string, requestId: string, task: Task) => Promise<string>
  /** Ends the child session that was made for this execution, if there is one. Its parent gets a report. */
  readonly executionEnded: (executionId: string, status: string) => Promise<void>
  readonly of: (parent: string) => Later<readonly Record<string, unknown>[]>
  /** Throws a Refusal unless `child` is a child of `parent`. */
  readonly mustOwn: (parent: string, child: string) => Later<void>
  /** Ends a session and its runner, after those of its descendants. */
  readonly terminate: (
    session: string,
    why: string,
    options?: { readonly quiet?: boolean },
  ) => Promise<void>
  /** The session has ended: ends its children too. */
  readonly ended: (session: string) => Promise<void>
  /** Starts the runners again that ran before a restart of the hub. */
  readonly resume: () => Promise<void>
  /** Stops every runner. Their sessions stay, to be resumed. */
  readonly stop: () => Promise<void>
}

/** What the child's sandbox is made with. Without a task the child waits for the order of a workflow. */
export const wishOf = ({ repoUrl, branch, ref, model, task }: Task): SandboxWish => ({
  ...(repoUrl !== undefined && { repoUrl }),
  ...(branch !== undefined && { branch }),
  ...(ref !== undefined && { ref }),
  ...(model !== undefined && { model }),
  ...(task === "" && { isForWorkflow: true }),
})

/** The name of the workspace of a child session that exists for one execution of a workflow. */
export const workspaceOf = (executionId: string): string => `workflow:${executionId}`

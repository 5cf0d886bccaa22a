/** Child sessions as the handlers of requests see them, and what a child gets from its parent. */
import type { AgentConfig } from "../session/rows.ts"
import type { SandboxWish } from "../session/ports.ts"

export interface Task {
  readonly task: string
  readonly workspace: string
  readonly repoUrl?: string | undefined
  readonly branch?: string | undefined
  readonly ref?: string | undefined
  readonly title?: string | undefined
  readonly model?: string | undefined
  readonly persona?: Persona | undefined
  readonly sourceType?: string | undefined
  readonly sourcePrNumber?: number | undefined
  readonly sourceIssueNumber?: number | undefined
  readonly sourceRepoFullName?: string | undefined
}

export interface Persona {
  readonly slug: string
  readonly content: string
}

export interface Children {
  /** Idempotent: the same request is the same child. */
  readonly spawn: (parent: string, requestId: string, task: Task) => Promise<string>
  readonly of: (parent: string) => Promise<readonly Record<string, unknown>[]>
  /** Ends a child, whose parent knows. Throws a Refusal unless `child` is a child of `parent`. */
  readonly terminate: (parent: string, child: string, why: string) => Promise<void>
  /** Ends all children of a session that ends: afterwards it could not end them any more. */
  readonly endAll: (parent: string) => Promise<void>
}

/** Children that run as processes of the hub's own machine. */
export interface LocalChildren {
  /** Makes the directory of a child, with the repository of its task. May be repeated. */
  readonly prepare: (child: string, task: Task) => Promise<void>
  readonly start: (child: LocalChild) => Promise<void>
}

export interface LocalChild {
  readonly id: string
  readonly parent: string
  readonly model: string | null
}

/** What the child's sandbox is made with. Without a task the child waits for the order of a workflow. */
export const wishOf = ({ repoUrl, branch, ref, model, task }: Task): SandboxWish => ({
  ...(repoUrl !== undefined && { repoUrl }),
  ...(branch !== undefined && { branch }),
  ...(ref !== undefined && { ref }),
  ...(model !== undefined && { model }),
  ...(task === "" && { isForWorkflow: true }),
})

/** The task as the child reads it. Without a task it waits for a workflow order. */
export const taskTextOf = ({
  task,
  sourceType,
  sourcePrNumber,
  sourceIssueNumber,
  sourceRepoFullName: repository,
}: Task): string => {
  const numbered = [
    ...(sourcePrNumber === undefined ? [] : [`pull request #${sourcePrNumber}`]),
    ...(sourceIssueNumber === undefined ? [] : [`issue #${sourceIssueNumber}`]),
  ]
  const named = sourceType === undefined ? [] : [sourceType]
  const from = (numbered.length > 0 ? numbered : named).join(", ")
  if (task === "" || (from === "" && repository === undefined)) return task
  const of = repository === undefined ? [] : from === "" ? [repository] : ["of", repository]
  return `${task}\n\nThe task comes from: ${[...(from === "" ? [] : [from]), ...of].join(" ")}.`
}

const PERSONA = "# Persona: "

/** The config of a child: its parent's, with its own persona in place of the parent's. */
export const childConfigOf = (parent: AgentConfig, persona: Persona | undefined): AgentConfig => {
  const known = parent.instructions ?? []
  const instructions = [
    ...known.filter((text) => !text.startsWith(PERSONA)),
    ...(persona ? [`${PERSONA}${persona.slug}\n\n${persona.content}`] : []),
  ]
  return instructions.length === 0 && known.length === 0 ? parent : { ...parent, instructions }
}

/** The name of the workspace of a child session that exists for one execution of a workflow. */
export const workspaceOf = (executionId: string): string => `workflow:${executionId}`

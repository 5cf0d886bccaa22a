/** Whether the agent of a session takes prompts, from the named value `agent`. Pure. */

export interface AgentState {
  readonly status?: string
  readonly detail?: string
}

/** An agent that works takes prompts, too. One that starts, has failed or is away does not. */
export const isAgentReady = (agent: AgentState | undefined): boolean =>
  agent?.status !== undefined &&
  agent.status !== "away" &&
  agent.status !== "error" &&
  !(agent.status === "thinking" && agent.detail === "starting")

/** The tools that a hub turns off because it cannot serve them, and on because it has something for them. Pure. */
import { gitHostTools, workflowUseTools } from "../wire/operations/tool-sets.ts"

export interface HubAbilities {
  readonly hasGitHost: boolean
  readonly hasWorkflows: boolean
}

export const toolSwitchesOf = ({
  hasGitHost,
  hasWorkflows,
}: HubAbilities): Readonly<Record<string, boolean>> => ({
  ...(!hasGitHost && Object.fromEntries(gitHostTools.map((name) => [name, false]))),
  ...(hasWorkflows && Object.fromEntries(workflowUseTools.map((name) => [name, true]))),
})

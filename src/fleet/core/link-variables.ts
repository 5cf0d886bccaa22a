/**
 * Divides the variables of an owner's sandbox: some reach a sandbox that runs already, in a frame of the link; the rest is
 * fixed when a sandbox starts. Pure.
 */
import type { GitCredentials } from "../../wire/frames/index.ts"
import { gitCredentials } from "../../wire/frames/shapes.ts"
import type { EnvironmentSources } from "./environment.ts"

export type OwnSources = Pick<EnvironmentSources, "providerKeys" | "credentials" | "github">

/** The agent's environment holds none of these, so a frame can replace them. */
const FIELDS: Readonly<Record<string, keyof GitCredentials>> = {
  GITHUB_TOKEN: "token",
  GIT_USER_NAME: "userName",
  GIT_USER_EMAIL: "userEmail",
}

export interface Divided {
  /** Sent over the link. */
  readonly git: GitCredentials
  /** What the sandbox must be started with. */
  readonly fixed: Readonly<Record<string, string>>
}

/** A value that the frame does not carry is fixed. */
const fits = (field: keyof GitCredentials, value: string): boolean =>
  gitCredentials.safeParse({ [field]: value }).success

export const divideVariables = (sources: OwnSources): Divided => {
  const git: { -readonly [Field in keyof GitCredentials]: GitCredentials[Field] } = {}
  const fixed: Record<string, string> = { ...sources.providerKeys, ...sources.credentials }
  for (const [name, value] of Object.entries(sources.github)) {
    const field = Object.hasOwn(FIELDS, name) ? FIELDS[name] : undefined
    if (field !== undefined && fits(field, value)) git[field] = value
    else fixed[name] = value
  }
  return { git, fixed }
}

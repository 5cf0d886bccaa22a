/** The runner's part of git's configuration, as text: identity, ignored files, and whom to ask for a password. Pure. */

export interface GitConfigInput {
  readonly userName?: string | undefined
  readonly userEmail?: string | undefined
  readonly ignoreFile: string
  /** Origins that the helper is asked about; git asks it about no other. */
  readonly origins: readonly string[]
  /** The command that answers, as a shell would take it. */
  readonly helper: string
}

export const gitIgnoreText =
  "# What the sandbox itself may leave in a working tree.\n.agent-ops/\n.opencode/\n"

export const gitConfigText = (input: GitConfigInput): string => {
  const identity = [
    ...(input.userName === undefined ? [] : [`\tname = ${quoted(input.userName)}`]),
    ...(input.userEmail === undefined ? [] : [`\temail = ${quoted(input.userEmail)}`]),
  ]
  return [
    "# Written at every start of the runner; changes are lost.",
    ...(identity.length === 0 ? [] : ["[user]", ...identity]),
    "[core]",
    `\texcludesFile = ${quoted(input.ignoreFile)}`,
    ...input.origins.flatMap((origin) => [
      `[credential ${quoted(origin)}]`,
      // The empty one takes away helpers of a wider scope, which might store what they are told.
      "\thelper =",
      `\thelper = ${quoted(`!${input.helper}`)}`,
    ]),
    "",
  ].join("\n")
}

/** In git's double quotes; line breaks and control characters have no place in a name or a path. */
const quoted = (text: string): string =>
  `"${text.replaceAll(/\p{Cc}+/gu, " ").replaceAll(/["\\]/g, "\\$&")}"`

export const shellQuoted = (word: string): string => `'${word.replaceAll("'", "'\\''")}'`

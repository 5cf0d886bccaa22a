/** The runner's part of git's configuration, as text: identity, ignored files, credential helper. Pure. */

export interface GitConfigInput {
  readonly userName?: string | undefined
  readonly userEmail?: string | undefined
  readonly ignoreFile: string
  /** git uses the helper for these origins only. */
  readonly origins: readonly string[]
  /** The helper's command line, quoted for a shell. */
  readonly helper: string
}

export const gitIgnoreText =
  "# Files that the sandbox itself may create in a working tree.\n.agent-ops/\n.opencode/\n"

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
      // The empty value removes helpers of a wider scope, which might store the token.
      "\thelper =",
      `\thelper = ${quoted(`!${input.helper}`)}`,
    ]),
    "",
  ].join("\n")
}

/** In git's double quotes; control characters, line breaks included, become spaces. */
const quoted = (text: string): string =>
  `"${text.replaceAll(/\p{Cc}+/gu, " ").replaceAll(/["\\]/g, "\\$&")}"`

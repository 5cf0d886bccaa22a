/** Removes credentials from the texts of a provider's errors and bounds their length. They are stored, logged and shown. */
import { createRedactor } from "../../lib/log.ts"

const HIDDEN = "[redacted]"
const MAX_TEXT = 2048
/** Longer texts are cut before the search. It is far above the length that is kept. */
const MAX_SEARCHED = 65_536

/** Keys that are recognised by their first characters: model providers, GitHub, GitLab, Slack and sandbox providers. */
const KEY =
  /\b(?:sk-[\w-]{8,}|gh[pousr]_\w{8,}|github_pat_\w{8,}|glpat-[\w-]{8,}|xox[a-z]-[\w-]{8,}|e2b_\w{8,}|dtn_\w{8,}|a[ks]-[A-Za-z0-9]{16,}|AKIA[A-Z0-9]{12,})/g

/** `secrets`: values that are known to be secret; they are removed in every usual encoding. */
export const redactError = (text: string, secrets: readonly string[]): string => {
  const clean = createRedactor(secrets)(text.slice(0, MAX_SEARCHED)).replaceAll(KEY, HIDDEN)
  return clean.length <= MAX_TEXT ? clean : `${clean.slice(0, MAX_TEXT)}…`
}

/** What a person types to a permission request of the agent. */
import type { PermissionReply } from "../../wire/permission.ts"
import { visibleText } from "../../lib/visible-text.ts"

const answers: Readonly<Record<string, PermissionReply>> = {
  y: "once",
  yes: "once",
  once: "once",
  a: "always",
  always: "always",
  n: "reject",
  no: "reject",
  reject: "reject",
}

/** Undefined for any other text. */
export const parsePermissionAnswer = (text: string): PermissionReply | undefined => {
  const word = text.trim().toLowerCase()
  return Object.hasOwn(answers, word) ? answers[word] : undefined
}

export const PERMISSION_HELP = "y: allow once, a: allow always, n: reject"

/** The kind of permission and what exactly the agent wants to do. */
export const describePermission = (title: string, patterns: readonly string[]): string =>
  [
    `The agent asks for a permission: ${visibleText(title)}`,
    ...patterns.map((pattern) => `  ${visibleText(pattern).replaceAll("\n", "\n  ")}`),
  ].join("\n")

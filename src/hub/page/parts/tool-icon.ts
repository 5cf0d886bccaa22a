/** The icon of each kind of tool. */
import type { ToolKind } from "../../view/tool-words.ts"
import type { IconName } from "../ui/icon.tsx"

export const toolIcons: Readonly<Record<ToolKind, IconName>> = {
  command: "shell",
  edit: "pencil",
  write: "fileText",
  read: "eye",
  search: "search",
  list: "folder",
  fetch: "globe",
  task: "bot",
  question: "asks",
  plan: "plan",
  other: "tool",
}

/** What a tool call is called on the screen: verb, subject and icon, from its name and its arguments. */
import type { MessagePart, ToolData } from "../../wire/clients/conversation.ts"
import { relativePath } from "./paths.ts"

export type ToolKind =
  | "command"
  | "edit"
  | "write"
  | "read"
  | "search"
  | "list"
  | "fetch"
  | "task"
  | "question"
  | "plan"
  | "other"

export interface ToolWords {
  readonly kind: ToolKind
  /** "Ran", "Edited", ...; the name of an unknown tool. */
  readonly verb: string
  /** The command, path, pattern or address; the arguments of an unknown tool as JSON. */
  readonly subject: string
}

const kinds: Readonly<Record<string, ToolKind>> = {
  bash: "command",
  edit: "edit",
  multiedit: "edit",
  patch: "edit",
  apply_patch: "edit",
  write: "write",
  read: "read",
  grep: "search",
  glob: "search",
  codesearch: "search",
  websearch: "search",
  list: "list",
  ls: "list",
  webfetch: "fetch",
  task: "task",
  question: "question",
  todowrite: "plan",
  todoread: "plan",
}

const verbs: Readonly<Record<Exclude<ToolKind, "other">, string>> = {
  command: "Ran",
  edit: "Edited",
  write: "Wrote",
  read: "Read",
  search: "Searched",
  list: "Listed",
  fetch: "Fetched",
  task: "Sub-agent",
  question: "Asked",
  plan: "Planned",
}

/** The argument that names the subject, by kind; the first one that exists counts. */
const subjects: Readonly<Record<Exclude<ToolKind, "other">, readonly string[]>> = {
  command: ["command", "description"],
  edit: ["filePath", "path", "file"],
  write: ["filePath", "path", "file"],
  read: ["filePath", "path", "file"],
  search: ["pattern", "query"],
  list: ["path"],
  fetch: ["url"],
  task: ["description", "prompt"],
  question: ["question", "header"],
  plan: [],
}

const PATHS: readonly ToolKind[] = ["edit", "write", "read", "list"]

/** The data of a tool part; `undefined` for every other part, and for data that is not a tool call. */
export const toolOf = ({ kind, data }: MessagePart): ToolData | undefined => {
  if (kind !== "tool" || typeof data !== "object" || data === null) return undefined
  const { callId, toolName, status } = data as Partial<ToolData>
  const isTool = typeof callId === "string" && typeof toolName === "string" && isStatus(status)
  return isTool ? (data as ToolData) : undefined
}

const isStatus = (value: unknown): value is ToolData["status"] =>
  value === "pending" || value === "running" || value === "completed" || value === "error"

export const kindOf = (toolName: string): ToolKind =>
  Object.hasOwn(kinds, toolName) ? (kinds[toolName] ?? "other") : "other"

/** Paths below `workspace` are shown without it. */
export const toolWords = ({ toolName, args, files }: ToolData, workspace = ""): ToolWords => {
  const kind = kindOf(toolName)
  if (kind === "other") return { kind, verb: toolName, subject: json(args) }
  const [first] = files ?? []
  const named = subjects[kind].map((name) => textOf(args, name)).find((text) => text !== "")
  const subject = named ?? first?.path ?? ""
  const isPath = PATHS.includes(kind)
  return { kind, verb: verbs[kind], subject: isPath ? relativePath(subject, workspace) : subject }
}

/** What the person reads while the tool runs: its description, else what it does. */
export const activityOf = (tool: ToolData, workspace = ""): string => {
  const description = textOf(tool.args, "description")
  if (description !== "") return description
  const { kind, verb, subject } = toolWords(tool, workspace)
  if (kind === "other") return `Using ${verb}`
  return subject === "" ? activities[kind] : `${activities[kind]} ${firstLine(subject)}`
}

const activities: Readonly<Record<Exclude<ToolKind, "other">, string>> = {
  command: "Running",
  edit: "Editing",
  write: "Writing",
  read: "Reading",
  search: "Searching",
  list: "Listing",
  fetch: "Fetching",
  task: "Sub-agent:",
  question: "Asking",
  plan: "Planning",
}

/** "Read 2 files, searched once": finished look-ups in a row are one line. */
export const lookupWords = (tools: readonly ToolData[]): string => {
  const count = (wanted: ToolKind) =>
    tools.filter((tool) => kindOf(tool.toolName) === wanted).length
  const phrases = [
    phrase(count("read"), "read 1 file", (n) => `read ${n} files`),
    phrase(count("search"), "searched once", (n) => `searched ${n} times`),
    phrase(count("list"), "listed 1 folder", (n) => `listed ${n} folders`),
  ].filter((text) => text !== "")
  const text = phrases.join(", ")
  return text.charAt(0).toUpperCase() + text.slice(1)
}

const phrase = (count: number, one: string, many: (count: number) => string): string =>
  count === 0 ? "" : count === 1 ? one : many(count)

const LOOKUPS: readonly ToolKind[] = ["read", "search", "list"]

/** Finished look-ups are grouped; a failed one keeps its own row, because its error matters. */
export const isLookup = ({ toolName, status }: ToolData): boolean =>
  status === "completed" && LOOKUPS.includes(kindOf(toolName))

const textOf = (args: unknown, name: string): string => {
  if (typeof args !== "object" || args === null) return ""
  const value = (args as Readonly<Record<string, unknown>>)[name]
  return typeof value === "string" ? value : ""
}

const firstLine = (text: string): string => text.split("\n", 1)[0] ?? ""

const json = (args: unknown): string => (args === undefined ? "" : (JSON.stringify(args) ?? ""))

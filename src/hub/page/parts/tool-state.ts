/** What the row of a tool shows of its state. Pure. */
import type { ToolData } from "../../../wire/clients/conversation.ts"

export const foldState = ({
  status,
  error,
}: ToolData): "running" | "pending" | "failed" | "done" => {
  if (status === "pending" || status === "running") return status
  return status === "error" && error !== "canceled" ? "failed" : "done"
}

/** The result as text; `undefined` when there is none. */
export const resultText = ({ result, error }: ToolData): string | undefined => {
  if (error !== undefined && error !== "canceled") return error
  if (result === undefined || result === null) return undefined
  return typeof result === "string" ? result : JSON.stringify(result, undefined, 2)
}

export const argsText = ({ args }: ToolData): string =>
  args === undefined ? "" : JSON.stringify(args, undefined, 2)

export const argOf = ({ args }: ToolData, name: string): unknown =>
  typeof args === "object" && args !== null
    ? (args as Readonly<Record<string, unknown>>)[name]
    : undefined

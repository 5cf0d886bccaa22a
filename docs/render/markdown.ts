/** The pieces that the generated documents are made of. */
import { z } from "zod"

/** Names the way back: a change here is lost, one in the source is not. */
export const heading = (title: string, words: string, source: string): string =>
  `# ${title}\n\n<!-- Made by \`bun docs/build.ts\` from ${source}; change it there. -->\n\n${words}`

export const table = (head: readonly string[], rows: readonly (readonly string[])[]): string =>
  [head, head.map(() => "---"), ...rows]
    .map((cells) => `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`)
    .join("\n")

interface FieldSchema {
  readonly type?: string | readonly string[]
  readonly enum?: readonly unknown[]
  readonly const?: unknown
  readonly items?: FieldSchema
  readonly anyOf?: readonly FieldSchema[]
  readonly description?: string
}

interface ObjectSchema {
  readonly properties?: Readonly<Record<string, FieldSchema>>
  readonly required?: readonly string[]
}

export interface Field {
  readonly name: string
  readonly isRequired: boolean
  readonly type: string
  readonly doc: string
}

export const fieldsOf = (schema: z.ZodType, io: "input" | "output"): readonly Field[] => {
  const made = z.toJSONSchema(schema, { io, unrepresentable: "any" }) as ObjectSchema
  return Object.entries(made.properties ?? {}).map(([name, field]) => ({
    name,
    isRequired: made.required?.includes(name) ?? false,
    type: typeOf(field),
    doc: field.description ?? "",
  }))
}

const typeOf = (field: FieldSchema): string => {
  if (field.const !== undefined) return JSON.stringify(field.const)
  if (field.enum) return field.enum.map(String).join(", ")
  if (field.anyOf) return field.anyOf.map(typeOf).join(" or ")
  if (field.type === "array") return field.items ? `list of ${typeOf(field.items)}` : "list"
  if (field.type === undefined) return "anything"
  return String(typeof field.type === "string" ? (words[field.type] ?? field.type) : field.type)
}

const words: Readonly<Record<string, string>> = {
  string: "text",
  integer: "whole number",
  boolean: "true or false",
}

/** `a`, `b?`: the names alone. */
export const briefly = (fields: readonly Field[]): string =>
  fields.length === 0
    ? "-"
    : fields.map(({ name, isRequired }) => `\`${name}${isRequired ? "" : "?"}\``).join(", ")

export const fieldTable = (fields: readonly Field[], first: string): string =>
  table(
    [first, "what", "meaning"],
    fields.map(({ name, isRequired, type, doc }) => [
      `\`${name}\`${isRequired ? "" : "?"}`,
      type,
      doc,
    ]),
  )

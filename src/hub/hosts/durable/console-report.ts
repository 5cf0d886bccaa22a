/**
 * Warnings of a Durable Object as JSON lines on the console, which the Workers runtime collects. A line holds names and
 * numbers, never the contents of frames or messages. This is the only file that writes to the console.
 */
import type { Ports } from "../../session/ports.ts"

/** Long enough for a reason, too short for a message. */
const MAX_FIELD = 200

export const consoleReport =
  (session: () => string | undefined): Ports["report"] =>
  (event, fields) =>
    console.warn(reportLine(event, session(), fields))

export const reportLine = (
  event: string,
  session: string | undefined,
  fields: Readonly<Record<string, unknown>>,
): string => {
  const scalars = Object.entries(fields).flatMap(([name, value]): [string, unknown][] => {
    if (typeof value === "string") return [[name, value.slice(0, MAX_FIELD)]]
    return typeof value === "number" || typeof value === "boolean" ? [[name, value]] : []
  })
  return JSON.stringify({
    level: "warn",
    event,
    ...(session !== undefined && { session }),
    ...Object.fromEntries(scalars),
  })
}

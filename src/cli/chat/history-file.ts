/** The lines that a person has typed in one directory: a file that only its owner can read, one JSON text per line. */
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { z } from "zod"
import { parseJson } from "../../lib/json.ts"

export interface HistoryFile {
  readonly read: () => readonly string[]
  readonly write: (history: readonly string[]) => void
}

const line = z.string()

export const openHistory = (stateDir: string): HistoryFile => {
  const file = join(stateDir, "chat-history.jsonl")
  return {
    read: () => {
      try {
        const lines = readFileSync(file, "utf8").split("\n")
        return lines.flatMap((text) => line.safeParse(parseJson(text)).data ?? [])
      } catch {
        return []
      }
    },
    write: (history) => {
      try {
        writeFileSync(file, history.map((text) => `${JSON.stringify(text)}\n`).join(""), {
          mode: 0o600,
        })
      } catch {
        // The history is a convenience: a full disk must not end the chat.
      }
    },
  }
}

/** Personas of an owner: Markdown texts. The first line describes the persona; the slug is its name. */
import { z } from "zod"
import type { Sql } from "../session/ports.ts"
import { selectAll } from "./rows.ts"

export interface PersonaText {
  readonly slug: string
  readonly content: string
}

export interface Personas {
  readonly list: () => readonly Record<string, unknown>[]
  /** False when there are too many personas. */
  readonly put: (persona: PersonaText) => boolean
  /** False when there is no such persona. */
  readonly remove: (slug: string) => boolean
}

const MOST_PERSONAS = 200
const personaRow = z.object({ slug: z.string(), content: z.string() })

/** `files`: personas that the host keeps as files. A stored persona of the same name hides the file. */
export const createPersonas = (
  sql: Sql,
  now: () => number,
  files: () => readonly PersonaText[],
): Personas => {
  const stored = () =>
    selectAll(sql, personaRow, "SELECT slug, content FROM personas ORDER BY slug")
  return {
    list: () =>
      [...new Map([...files(), ...stored()].map((one) => [one.slug, one])).values()]
        .toSorted((a, b) => (a.slug < b.slug ? -1 : 1))
        .map(showPersona),
    put: ({ slug, content }) => {
      const others = stored().filter((one) => one.slug !== slug)
      if (others.length >= MOST_PERSONAS) return false
      sql.run(
        "INSERT OR REPLACE INTO personas (slug, content, updated_at) VALUES (?, ?, ?)",
        slug,
        content,
        now(),
      )
      return true
    },
    remove: (slug) =>
      sql.all("DELETE FROM personas WHERE slug = ? RETURNING slug", slug).length > 0,
  }
}

const showPersona = ({ slug, content }: PersonaText): Record<string, unknown> => ({
  id: slug,
  slug,
  name: slug,
  description: content.split("\n", 1)[0]?.replace(/^#+\s*/, "") ?? "",
  content,
})

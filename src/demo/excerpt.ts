/** Short excerpts of what was said. */

/** Drops the leading lines in brackets by which a channel says who is speaking. */
export const withoutAttribution = (text: string): string =>
  text.replace(/^(?:\s*\[[^\n]*\][ \t]*(?:\n|$))+/, "").trim()

/** Drops what OpenCode puts into a user's message on its own account; some of its lines look like our words. */
export const withoutReminders = (text: string): string =>
  text.replace(/<system-reminder>[\s\S]*?<\/system-reminder>/g, "")

/** At most `max` characters long, and never ending in half a surrogate pair. */
export const shorten = (text: string, max: number): string =>
  text.length <= max ? text : `${text.slice(0, max - 1).replace(/[\uD800-\uDBFF]$/, "")}…`

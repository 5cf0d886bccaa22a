/** Cleans and shortens prompt text for the demo model's replies. */

/** Drops the leading lines in brackets with which a channel names the author. */
export const withoutAttribution = (text: string): string =>
  text.replace(/^(?:\s*\[[^\n]*\][ \t]*(?:\n|$))+/, "").trim()

/** Drops the reminders that OpenCode adds to a user's message; some of their lines look like commands. */
export const withoutReminders = (text: string): string =>
  text.replace(/<system-reminder>[\s\S]*?<\/system-reminder>/g, "")

/** Never ends inside a surrogate pair. */
export const shorten = (text: string, max: number): string =>
  text.length <= max ? text : `${text.slice(0, max - 1).replace(/[\uD800-\uDBFF]$/, "")}…`

/** Text between Slack's notation and plain Markdown. Pure. */

/**
 * Markdown as Slack shows it. `&`, `<` and `>` are escaped first, so that text of the agent cannot mention a person or a
 * whole channel; code is left as it is.
 */
export const toSlack = (markdown: string): string =>
  escape(markdown)
    .split(/(```[\s\S]*?(?:```|$)|`[^`\n]*`)/)
    .map((piece, index) => (index % 2 === 1 ? piece : formatted(piece)))
    .join("")

const formatted = (text: string): string =>
  text
    .replaceAll(/\*\*(?=\S)([^*\n]+?)\*\*/g, "*$1*")
    .replaceAll(/^#{1,6} +([^\n]+)$/gm, "*$1*")
    .replaceAll(/\[([^\]\n|]+)\]\((https?:\/\/[^\s)|]+)\)/g, "<$2|$1>")

const escape = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;")

/** What a person wrote: without the mention of the app at its start, links as addresses, entities as characters. */
export const fromSlack = (text: string): string =>
  text
    .replace(/^\s*<@[A-Z0-9]+(?:\|[^>]*)?>[\s,:]*/, "")
    .replaceAll(/<(https?:\/\/[^|>\s]+)(?:\|([^>]*))?>/g, (_all, url: string, label?: string) =>
      label === undefined || label === url ? url : `${label} (${url})`,
    )
    .replaceAll(
      /<@([A-Z0-9]+)(?:\|([^>]*))?>/g,
      (_all, id: string, name?: string) => `@${name ?? id}`,
    )
    .replaceAll(/<#([A-Z0-9]+)(?:\|([^>]*))?>/g, (_all, id: string, name?: string) =>
      name ? `#${name}` : `#${id}`,
    )
    .replaceAll("&lt;", "<")
    .replaceAll("&gt;", ">")
    .replaceAll("&amp;", "&")
    .trim()

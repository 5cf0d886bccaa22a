/** One line for the model with the author of a prompt and its channel. Pure. */

interface Origin {
  readonly channelType?: string | undefined
  readonly channelId?: string | undefined
  readonly authorId?: string | undefined
  readonly authorName?: string | undefined
  readonly authorEmail?: string | undefined
}

/** Undefined for a prompt without an author on a web channel. */
export const attributionLine = (origin: Origin): string | undefined => {
  const facts = [authorOf(origin), channelOf(origin)].filter((fact) => fact !== "")
  return facts.length === 0 ? undefined : `[${facts.join(" ")}]`
}

const authorOf = ({ authorName, authorEmail, authorId }: Origin): string => {
  const name = oneLine(authorName ?? authorEmail ?? authorId)
  if (name === "") return ""
  const email = authorName && authorEmail ? ` <${oneLine(authorEmail)}>` : ""
  const id = authorId && authorId !== name ? ` (id ${oneLine(authorId)})` : ""
  return `From ${name}${email}${id}`
}

const channelOf = ({ channelType, channelId }: Origin): string => {
  if (!channelType || !channelId || channelType === "web") return ""
  return `via ${oneLine(channelType)}, chat ${oneLine(channelId)}`
}

/** Names are user input: they must not be able to start a new line or to close the bracket. */
const oneLine = (text: string | undefined): string =>
  (text ?? "")
    .replaceAll(/[\s[\]<>]+/g, " ")
    .trim()
    .slice(0, 200)

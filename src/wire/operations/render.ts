/** What the model reads of a reply: short, and the whole of what it needs. */

/** Text as it is, anything else as JSON. */
export const shown = (value: unknown): string =>
  typeof value === "string" ? value : (JSON.stringify(value, null, 2) ?? "Nothing.")

/** How many there are, then one a line. */
export const listed = (items: readonly unknown[], one: string, many: string): string => {
  if (items.length === 0) return `No ${many}.`
  const head = `${items.length} ${items.length === 1 ? one : many}:`
  return [head, ...items.map((item) => JSON.stringify(item))].join("\n")
}

interface Message {
  readonly role: string
  readonly content: string
  readonly createdAt: string | number
}

export const conversation = (messages: readonly Message[]): string =>
  messages.length === 0
    ? "No messages."
    : messages
        .map(({ role, content, createdAt }) => `[${role}, ${createdAt}]\n${content}`)
        .join("\n\n")

interface PullRequest {
  readonly number: number
  readonly url: string
  readonly title: string
  readonly state: string
}

export const pullRequest = ({ number, url, title, state }: PullRequest): string =>
  `Pull request #${number} (${state}): ${title}\n${url}`

interface Run {
  readonly exitCode: number
  readonly stdout: string
  readonly stderr: string
}

/** A command that fails is an answer like any other: the model reads what it wrote. */
export const ran = ({ exitCode, stdout, stderr }: Run): string =>
  [
    `Exit code ${exitCode}.`,
    ...(stdout === "" ? [] : [stdout.trimEnd()]),
    ...(stderr === "" ? [] : [`On stderr:\n${stderr.trimEnd()}`]),
  ].join("\n")

/** The id of what was made, if the session agent names one. */
export const idOf = (thing: Readonly<Record<string, unknown>>): string =>
  typeof thing["id"] === "string" ? ` as ${thing["id"]}` : ""

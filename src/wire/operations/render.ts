/** Turns a reply into the text that the model reads. */

/** Text as it is, anything else as JSON. */
export const renderValue = (value: unknown): string =>
  typeof value === "string" ? value : (JSON.stringify(value, null, 2) ?? "Nothing.")

/** The count, then one line of JSON for each item. */
export const renderList = (items: readonly unknown[], one: string, many: string): string => {
  if (items.length === 0) return `No ${many}.`
  const head = `${items.length} ${items.length === 1 ? one : many}:`
  return [head, ...items.map((item) => JSON.stringify(item))].join("\n")
}

interface Message {
  readonly role: string
  readonly content: string
  readonly createdAt: string | number
}

export const renderMessages = (messages: readonly Message[]): string =>
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

export const renderPullRequest = ({ number, url, title, state }: PullRequest): string =>
  `Pull request #${number} (${state}): ${title}\n${url}`

interface Run {
  readonly exitCode: number
  readonly stdout: string
  readonly stderr: string
}

/** A failed command is a normal reply: the model needs its output. */
export const renderCommandResult = ({ exitCode, stdout, stderr }: Run): string =>
  [
    `Exit code ${exitCode}.`,
    ...(stdout === "" ? [] : [stdout.trimEnd()]),
    ...(stderr === "" ? [] : [`stderr:\n${stderr.trimEnd()}`]),
  ].join("\n")

/** ` as <id>`, or nothing when the object has no id. */
export const asId = (thing: Readonly<Record<string, unknown>>): string =>
  typeof thing["id"] === "string" ? ` as ${thing["id"]}` : ""

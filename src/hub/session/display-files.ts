/**
 * Files that the agent shows to the user. Each (path, content) is stored once, however often the runner sends it. The
 * sandbox is not trusted: type and size are determined here again.
 */
import { contentTypeOf } from "../../lib/content-type.ts"
import { channelKey } from "../../wire/channel.ts"
import { displayLimits } from "../../wire/frames/display.ts"
import type { Outbound } from "../../wire/frames/index.ts"
import { storeArtifact } from "./artifacts.ts"
import { countRow, hasRow, readRow } from "./rows.ts"
import type { SessionContext } from "./session-context.ts"

/** More files than a session ever shows; a sandbox that sends more is not stored without limit. */
const MOST_FILES = 1000

type Artifacts = Outbound<"artifacts">
type NotShown = NonNullable<Artifacts["omitted"]>[number]

/** Inside the frame's transaction. */
export const storeDisplayFiles = (context: SessionContext, frame: Artifacts): void => {
  const { ports, messages } = context
  const channel = channelKey(frame)
  const refused: NotShown[] = []
  let bytes = 0
  for (const { path, sha256, data } of frame.files) {
    if (isStored(context, path, sha256)) continue
    const content = decode(data)
    bytes += content?.length ?? 0
    const mime = content && contentTypeOf(content)
    const reason = reasonToRefuse(context, content, mime, bytes)
    if (reason !== undefined || mime === undefined) {
      refused.push({ path, reason: reason ?? "its type is not shown" })
      continue
    }
    const id = ports.newId()
    ports.sql.run("INSERT INTO display_files (path, sha256, id) VALUES (?, ?, ?)", path, sha256, id)
    storeArtifact(context, { id, mime, base64: data, description: path, messageId: frame.turnId })
    const image = { artifact: id, mime }
    // A message to a chat service needs the blob; the file moves when that has ended.
    if (!context.chatSends.add({ id: `display-${id}`, channel, text: path, image }))
      context.artifactMoves.add(id)
  }
  const notShown = [...(frame.omitted ?? []), ...refused]
  if (notShown.length === 0) return
  const content = ["Not shown of `output/display`:", ...notShown.map(lineOf)].join("\n")
  messages.add("system", { channel, content })
}

const isStored = ({ ports }: SessionContext, path: string, sha256: string): boolean =>
  hasRow(ports.sql, "SELECT 1 FROM display_files WHERE path = ? AND sha256 = ?", path, sha256)

const reasonToRefuse = (
  { ports }: SessionContext,
  content: Uint8Array | undefined,
  mime: string | undefined,
  bytesSoFar: number,
): string | undefined => {
  if (content === undefined) return "its content is not base64"
  if (content.length > displayLimits.fileBytes || bytesSoFar > displayLimits.frameBytes)
    return "it is too large"
  if (mime === undefined) return "its type is not shown"
  const stored = readRow(ports.sql, countRow, "SELECT count(*) AS count FROM display_files")
  return (stored?.count ?? 0) < MOST_FILES
    ? undefined
    : `the session has shown ${MOST_FILES} files already`
}

const decode = (base64: string): Uint8Array | undefined => {
  try {
    return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0))
  } catch {
    return undefined
  }
}

const lineOf = ({ path, reason }: NotShown): string =>
  `- ${path.replaceAll(/[\p{Cc}`]/gu, " ")}: ${reason.replaceAll(/[\p{Cc}`]/gu, " ")}`

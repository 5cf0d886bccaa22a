/**
 * Tokens (bytes / 4) of the first request of a session with each set of tools, beside OpenCode alone in the same run and
 * beside a peer's 69 tools. The peer is counted without descriptions; `all` is counted that way too, for a fair ratio.
 */
import { toolSets } from "../src/wire/operations/tool-sets.ts"
import {
  type FirstRequest,
  firstRequestOfOpenCodeAlone,
  firstRequestWith,
  tokensOf,
} from "../test/kit/first-request.ts"
import { tools } from "../tools/index.ts"
import { say } from "./measure.ts"
import { peerTools } from "./peer-tools.ts"

const withoutDescriptions = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(withoutDescriptions)
  if (typeof value !== "object" || value === null) return value
  const isText = (key: string, part: unknown) => key === "description" && typeof part === "string"
  return Object.fromEntries(
    Object.entries(value)
      .filter(([key, part]) => !isText(key, part))
      .map(([key, part]) => [key, withoutDescriptions(part)]),
  )
}

const bareBytesOf = ({ tools: offered }: FirstRequest): number =>
  offered
    .filter(({ function: { name } }) => name in tools)
    .reduce((sum, tool) => sum + Buffer.byteLength(JSON.stringify(withoutDescriptions(tool))), 0)

const alone = await firstRequestOfOpenCodeAlone()
say("OpenCode alone", `${alone.names.length} tools, ${tokensOf(alone.bytes)} tokens`)
for (const set of toolSets) {
  const request = await firstRequestWith(set)
  const more = tokensOf(request.bytes - alone.bytes)
  const { names, bytes } = request
  say(`sandpiper, set ${set}`, `${names.length} tools, ${tokensOf(bytes)} tokens, ${more} more`)
  if (set === "all")
    say("our tools of all, without descriptions", `${tokensOf(bareBytesOf(request))} tokens`)
}
const peer = peerTools.reduce((sum, { bytes }) => sum + bytes, 0)
say(
  "OpenCode with a peer's tools, at least",
  `${alone.names.length + peerTools.length} tools, ${tokensOf(alone.bytes + peer)} tokens, ${tokensOf(peer)} more without descriptions`,
)

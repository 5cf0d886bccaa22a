/** Tokens (bytes / 4) of the first request of a session with each set of tools, beside OpenCode alone in the same run. */
import { toolSets } from "../src/wire/operations/tool-sets.ts"
import {
  firstRequestOfOpenCodeAlone,
  firstRequestWith,
  tokensOf,
} from "../test/kit/first-request.ts"
import { say } from "./measure.ts"

const alone = await firstRequestOfOpenCodeAlone()
say("OpenCode alone", `${alone.names.length} tools, ${tokensOf(alone.bytes)} tokens`)
for (const set of toolSets) {
  const { bytes, names } = await firstRequestWith(set)
  const more = tokensOf(bytes - alone.bytes)
  say(`sandpiper, set ${set}`, `${names.length} tools, ${tokensOf(bytes)} tokens, ${more} more`)
}

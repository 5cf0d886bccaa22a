/**
 * Generates catalogue.ndjson, the bundled subset of OpenCode's model catalogue. The catalogue is a JavaScript object
 * literal inside OpenCode's binary; it is read from there, so that the subset equals the pinned version's entries.
 */
import { join } from "node:path"
import { runInNewContext } from "node:vm"
import { z } from "zod"
import type { AuthStyle } from "../../broker/upstreams.ts"
import { findOpenCode } from "../launch/binaries.ts"
import { keyedProviders } from "./endpoints.ts"
import manifest from "../../../../package.json" with { type: "json" }

const self = join(import.meta.dir, "../../../../dist/sandpiper")

/** A header line with the ids of the other providers, then one line for each bundled provider. */
export const generatedCatalogue = async (): Promise<string> => {
  const all = await readCatalogue(findOpenCode({ path: "", self }))
  const others = Object.keys(all).filter((id) => !keyedProviders.includes(id))
  const kept = keyedProviders.map((id) => {
    if (!(id in all))
      throw new Error(
        `OpenCode's catalogue has no provider ${id}; correct the provider keys in compose-config.ts`,
      )
    return { [id]: all[id] }
  })
  const head = {
    opencode: manifest.dependencies["opencode-ai"],
    others: others.toSorted(),
    addresses: Object.fromEntries(others.toSorted().flatMap((id) => addressOf(id, all[id]))),
  }
  return [head, ...kept].map((line) => `${escapeNonAscii(JSON.stringify(line))}\n`).join("")
}

const addressed = z.object({ npm: z.string(), api: z.string() })

/** How the client library of a provider sends the key; other libraries do more than adding one header. */
const authStyles: Readonly<Record<string, AuthStyle>> = {
  "@ai-sdk/openai-compatible": "bearer",
  "@ai-sdk/openai": "bearer",
  "@openrouter/ai-sdk-provider": "bearer",
  "@ai-sdk/anthropic": "x-api-key",
}

/** Addresses with a placeholder or on the own machine are not addresses of a provider. */
const addressOf = (id: string, entry: unknown) => {
  const { npm = "", api: baseUrl = "" } = addressed.safeParse(entry).data ?? {}
  const auth = authStyles[npm]
  return auth !== undefined && /^https:\/\/[^$]+$/.test(baseUrl)
    ? [[id, { baseUrl, auth }] as const]
    : []
}

const ANCHOR = "OPENCODE_MODELS_PATH??"
const OPENING = "(()=>("

const readCatalogue = async (binary: string): Promise<Readonly<Record<string, unknown>>> => {
  const bytes = Buffer.from(await Bun.file(binary).arrayBuffer())
  const anchor = bytes.indexOf(ANCHOR)
  const opening = anchor < 0 ? -1 : bytes.indexOf(OPENING, anchor)
  if (opening < 0)
    throw new Error(
      `no model catalogue found in ${binary}; the search strings in catalogue-build.ts must be adapted`,
    )
  const begin = opening + OPENING.length
  const literal = bytes.subarray(begin, endOfLiteral(bytes, begin)).toString("utf8")
  return z.record(z.string(), z.unknown()).parse(runInNewContext(`(${literal})`))
}

const [QUOTE, BACKSLASH, OPEN, CLOSE] = [0x22, 0x5c, 0x7b, 0x7d]

/** The index after the brace that closes the one at `begin`; braces in strings are skipped. */
const endOfLiteral = (bytes: Buffer, begin: number): number => {
  let depth = 0
  let inString = false
  for (let at = begin; at < bytes.length; at += 1) {
    const byte = bytes[at]
    if (inString && byte === BACKSLASH) at += 1
    else if (byte === QUOTE) inString = !inString
    else if (!inString && byte === OPEN) depth += 1
    else if (!inString && byte === CLOSE) depth -= 1
    if (depth === 0) return at + 1
  }
  throw new Error("the model catalogue has no closing brace")
}

const escapeNonAscii = (json: string): string =>
  json.replaceAll(
    /[\u0080-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  )

if (import.meta.main) {
  await Bun.write(join(import.meta.dir, "catalogue.ndjson"), await generatedCatalogue())
}

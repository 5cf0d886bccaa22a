/**
 * Writes the part of OpenCode's catalogue of models that the runner hands it. The catalogue lies in OpenCode's program
 * as one expression of JavaScript with every model of every provider; this reads it there, so that what is written
 * is word for word what the pinned version knows.
 */
import { join } from "node:path"
import { runInNewContext } from "node:vm"
import { z } from "zod"
import { findOpenCode } from "../launch/binaries.ts"
import { keyedProviders } from "./compose-config.ts"
import manifest from "../../../../package.json" with { type: "json" }

const self = join(import.meta.dir, "../../../../dist/sandpiper")

/** A line that names the others, then a line for each provider: no reader has to parse more than it wants. */
export const generatedCatalogue = async (): Promise<string> => {
  const all = await readCatalogue(findOpenCode({ path: "", self }))
  const others = Object.keys(all).filter((id) => !keyedProviders.includes(id))
  const kept = keyedProviders.map((id) => {
    if (!(id in all)) throw new Error(`OpenCode's catalogue has no provider ${id}`)
    return { [id]: all[id] }
  })
  const head = { opencode: manifest.dependencies["opencode-ai"], others: others.toSorted() }
  return [head, ...kept].map((line) => `${ascii(JSON.stringify(line))}\n`).join("")
}

const SIGN = "OPENCODE_MODELS_PATH??"
const OPENING = "(()=>("

const readCatalogue = async (binary: string): Promise<Readonly<Record<string, unknown>>> => {
  const bytes = Buffer.from(await Bun.file(binary).arrayBuffer())
  const sign = bytes.indexOf(SIGN)
  const opening = sign < 0 ? -1 : bytes.indexOf(OPENING, sign)
  if (opening < 0) throw new Error(`${binary} has its catalogue of models elsewhere`)
  const begin = opening + OPENING.length
  const literal = bytes.subarray(begin, endOfLiteral(bytes, begin)).toString("utf8")
  return z.record(z.string(), z.unknown()).parse(runInNewContext(`(${literal})`))
}

const [QUOTE, BACKSLASH, OPEN, CLOSE] = [0x22, 0x5c, 0x7b, 0x7d]

/** Behind the brace that closes the one at `begin`; braces in strings do not count. */
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
  throw new Error("the catalogue of models has no end")
}

const ascii = (json: string): string =>
  json.replaceAll(
    /[\u0080-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  )

if (import.meta.main) {
  await Bun.write(join(import.meta.dir, "catalogue.ndjson"), await generatedCatalogue())
}

/** Secrets from a JSON file of names and values that only its owner may read. */
import { readFile, stat } from "node:fs/promises"
import { z } from "zod"
import { SecretsError } from "./secrets-error.ts"
import type { SecretsProvider } from "./secrets.ts"

const SCHEME = "secret://"

const contents = z.record(z.string().regex(/^[\w.-]+(?:\/[\w.-]+)*$/), z.string())

/** Reads the file each time, so that changes take effect at once. */
export const createSecretsFile = (path: string): SecretsProvider => {
  const read = async (): Promise<ReadonlyMap<string, string>> => {
    const found = await stat(path).catch((cause: unknown) => {
      throw new SecretsError("unavailable", "the secrets file is missing", { cause })
    })
    if ((found.mode & 0o077) !== 0) {
      throw new SecretsError(
        "unavailable",
        "the secrets file can be read by others: run chmod 600 on it",
      )
    }
    const parsed = contents.safeParse(jsonOf(await readFile(path, "utf8")))
    if (!parsed.success) {
      throw new SecretsError(
        "unavailable",
        "the secrets file must be a JSON object of names and values",
      )
    }
    return new Map(Object.entries(parsed.data).map(([name, value]) => [`${SCHEME}${name}`, value]))
  }
  return {
    references: /secret:\/\/[\w.-]+(?:\/[\w.-]+)*/g,
    isReference: (text) => /^secret:\/\/[\w.-]+(?:\/[\w.-]+)*$/.test(text),
    list: async (vault) =>
      [...(await read()).keys()]
        .filter((reference) => vault === undefined || reference.startsWith(`${SCHEME}${vault}/`))
        .map((reference) => ({ reference })),
    resolve: async (references) => {
      const values = await read()
      const missing = references.filter((reference) => !values.has(reference))
      if (missing.length > 0) {
        throw new SecretsError("not-found", `there is no secret ${missing.join(", ")}`)
      }
      return new Map(references.map((reference) => [reference, values.get(reference) ?? ""]))
    },
  }
}

const jsonOf = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

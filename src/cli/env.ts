/** `sandpiper env`: writes the env files of a list, or removes them. */
import { readFile } from "node:fs/promises"
import { z } from "zod"
import { SettingsError } from "../settings/settings-error.ts"
import { type Command, print } from "./command.ts"
import { gatewayClient } from "./gateway-client.ts"

const written = z.object({ written: z.array(z.string()) })
const removed = z.object({ removed: z.array(z.string()) })

export const env: Command = async ({ settings, args }) => {
  const { words = [], json } = args
  const client = gatewayClient(settings)
  if (settings.operand === "scrub") {
    const result = await client.call(removed, "POST", "/api/env/scrub", {})
    print(
      json ? `${JSON.stringify(result)}\n` : `Removed: ${result.removed.join(", ") || "none"}\n`,
    )
    return 0
  }
  const [file] = words
  if (file === undefined) {
    throw new SettingsError(
      'env apply needs a FILE: {"files": [{"path": ".env", "variables": {"NAME": "reference"}}]}',
    )
  }
  const result = await client.call(written, "POST", "/api/env/apply", await readJson(file))
  print(json ? `${JSON.stringify(result)}\n` : `Written: ${result.written.join(", ")}\n`)
  return 0
}

const readJson = async (file: string): Promise<object> => {
  const text = await readFile(file === "-" ? "/dev/stdin" : file, "utf8").catch(() => {
    throw new SettingsError(`${file} cannot be read`)
  })
  try {
    return z.object({ files: z.array(z.unknown()) }).parse(JSON.parse(text))
  } catch {
    throw new SettingsError(`${file} must contain a JSON object with a list "files"`)
  }
}

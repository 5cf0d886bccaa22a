/** The address and the token of the hub that runs on this machine: a file that only its owner can read. */
import { readFileSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { z } from "zod"
import { readJson } from "../../../lib/json.ts"

const hubAddress = z.object({
  url: z.string(),
  token: z.string(),
  /** The session that `up` works on. */
  session: z.string().optional(),
  /** The origin of the page; absent while it is not served. */
  page: z.string().optional(),
})

export type HubAddress = Readonly<z.output<typeof hubAddress>>

const fileOf = (stateDir: string) => join(stateDir, "hub", "address.json")

/** Written to a new file and renamed: a reader never finds half of it. */
export const writeAddress = (stateDir: string, address: HubAddress): void => {
  const draft = `${fileOf(stateDir)}.new`
  writeFileSync(draft, `${JSON.stringify(address)}\n`, { mode: 0o600 })
  renameSync(draft, fileOf(stateDir))
}

export const removeAddress = (stateDir: string): void => rmSync(fileOf(stateDir), { force: true })

/** `undefined` when no hub runs on this state directory. */
export const readAddress = (stateDir: string): HubAddress | undefined => {
  try {
    return readJson(hubAddress, readFileSync(fileOf(stateDir), "utf8"))
  } catch {
    return undefined
  }
}

/** The address and the token of the hub that runs on this machine: a file that only its owner can read. */
import { readFileSync, rmSync } from "node:fs"
import { join } from "node:path"
import { z } from "zod"
import { readJson } from "../../../lib/json.ts"
import { replaceFile } from "../../../lib/replace-file.ts"

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

/** Replicas of one state directory write it at the same time. */
export const writeAddress = (stateDir: string, address: HubAddress): void =>
  replaceFile(fileOf(stateDir), `${JSON.stringify(address)}\n`)

export const removeAddress = (stateDir: string): void => rmSync(fileOf(stateDir), { force: true })

/** `undefined` when no hub runs on this state directory. */
export const readAddress = (stateDir: string): HubAddress | undefined => {
  try {
    return readJson(hubAddress, readFileSync(fileOf(stateDir), "utf8"))
  } catch {
    return undefined
  }
}

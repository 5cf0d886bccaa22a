/** Where this machine's hub is and what opens it: a file that only its owner can read, for as long as the hub runs. */
import { readFileSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"

export interface HubAddress {
  readonly url: string
  readonly token: string
}

const fileOf = (stateDir: string) => join(stateDir, "hub", "address.json")

/** Whole or not at all: whoever looks for it may look at any moment. */
export const writeAddress = (stateDir: string, address: HubAddress): void => {
  const draft = `${fileOf(stateDir)}.new`
  writeFileSync(draft, `${JSON.stringify(address)}\n`, { mode: 0o600 })
  renameSync(draft, fileOf(stateDir))
}

export const removeAddress = (stateDir: string): void => rmSync(fileOf(stateDir), { force: true })

/** Nothing when no hub runs on this state directory. */
export const readAddress = (stateDir: string): HubAddress | undefined => {
  try {
    const { url, token } = JSON.parse(readFileSync(fileOf(stateDir), "utf8")) as Partial<HubAddress>
    return url !== undefined && token !== undefined ? { url, token } : undefined
  } catch {
    return undefined
  }
}

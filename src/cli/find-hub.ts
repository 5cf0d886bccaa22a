/** Finds the session agent that `sandpiper up` runs on this machine. */
import { type HubAddress, readAddress } from "../hub/hosts/bun/address.ts"
import type { Settings } from "../settings/settings.ts"
import { SettingsError } from "../settings/settings-error.ts"

export const findHub = ({ stateDir }: Settings): HubAddress => {
  const address = readAddress(stateDir)
  if (address) return address
  throw new SettingsError(
    `no session agent runs on ${stateDir}: start one with \`sandpiper up\`, or set SANDPIPER_STATE_DIR (--state-dir)`,
  )
}

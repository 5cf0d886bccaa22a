/** Whether keys without Ctrl or Cmd do something. People who dictate or press keys by accident turn them off. */
import { signal } from "@preact/signals"
import { readStored, writeStored } from "./storage.ts"

export const hasSingleKeys = signal(readStored("single-keys") !== "off")

export const setSingleKeys = (isOn: boolean): void => {
  hasSingleKeys.value = isOn
  writeStored("single-keys", isOn ? undefined : "off")
}

/** The kernel's id of this boot, under which values that are valid for one boot are stored. */
import { readFileSync } from "node:fs"

/** Empty if the kernel provides none; then every start of the runner counts as a boot. */
export const readBootId = (path = "/proc/sys/kernel/random/boot_id"): string => {
  try {
    return readFileSync(path, "utf8").trim()
  } catch {
    return ""
  }
}

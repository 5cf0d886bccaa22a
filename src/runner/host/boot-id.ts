/** Which start of the machine this is: what is made anew at every boot is kept under this name. */
import { readFileSync } from "node:fs"

/** Empty where the kernel does not tell: then every start of the runner counts as a boot. */
export const readBootId = (path = "/proc/sys/kernel/random/boot_id"): string => {
  try {
    return readFileSync(path, "utf8").trim()
  } catch {
    return ""
  }
}

/** The OpenCode processes of one sandbox, whoever started them. */
import { readdir, readFile } from "node:fs/promises"

/** Every OpenCode that was started in this sandbox, whoever started it. */
const opencodesOf = async ({ root }: { readonly root: string }): Promise<readonly number[]> => {
  const found: number[] = []
  for (const entry of await readdir("/proc")) {
    const pid = Number(entry)
    if (!Number.isInteger(pid)) continue
    const read = (file: string) => readFile(`/proc/${pid}/${file}`, "utf8").catch(() => "")
    if (!(await read("cmdline")).includes("opencode\0serve")) continue
    if ((await read("environ")).includes(root)) found.push(pid)
  }
  return found
}

/** How many there were. */
export const killOpenCode = async (sandbox: { readonly root: string }): Promise<number> => {
  const pids = await opencodesOf(sandbox)
  for (const pid of pids) process.kill(pid, "SIGKILL")
  return pids.length
}

/** They hear nothing and do nothing from now on; only their end is left. */
export const freezeOpenCode = async (sandbox: { readonly root: string }): Promise<void> => {
  const pids = await opencodesOf(sandbox)
  if (pids.length === 0) throw new Error("there is no OpenCode to freeze")
  for (const pid of pids) process.kill(pid, "SIGSTOP")
}

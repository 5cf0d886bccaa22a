/** Finds, kills and freezes the OpenCode processes of one sandbox. */
import { readdir, readFile } from "node:fs/promises"

/** Pids of all OpenCode servers of this sandbox, also of those that an earlier runner started. */
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

/** Kills all OpenCode servers of the sandbox; resolves with their number. */
export const killOpenCode = async (sandbox: { readonly root: string }): Promise<number> => {
  const pids = await opencodesOf(sandbox)
  for (const pid of pids) process.kill(pid, "SIGKILL")
  return pids.length
}

/** Stops all OpenCode servers of the sandbox with SIGSTOP: they respond to nothing and can only be killed. */
export const freezeOpenCode = async (sandbox: { readonly root: string }): Promise<void> => {
  const pids = await opencodesOf(sandbox)
  if (pids.length === 0)
    throw new Error("no OpenCode server runs in this sandbox: nothing to freeze")
  for (const pid of pids) process.kill(pid, "SIGSTOP")
}

/**
 * Background processes of a server that has ended, with the runner or alone. They ended with it; the next server lists
 * them as exited, so that a caller sees what became of them.
 */
import { z } from "zod"

/** What the runner stores of a running process. It comes from a process of the agent's user, so it is bounded. */
const formerProcess = z.object({
  id: z.string().regex(/^proc_\d{1,9}$/),
  command: z.string().max(4096),
  args: z.array(z.string().max(4096)).max(100),
  cwd: z.string().max(4096).optional(),
  tty: z.boolean(),
  interactive: z.boolean(),
  createdAtMs: z.number(),
})
export type FormerProcess = z.output<typeof formerProcess>

export const formerProcesses = z.object({
  /** Ids continue after this one. */
  started: z.int().nonnegative(),
  running: z.array(formerProcess).max(64),
})
export type FormerProcesses = z.output<typeof formerProcesses>

const MOST_ARGUMENTS = 100
const MOST_CHARACTERS = 1000

/** Long arguments are cut: the record only names the process. */
export const recordOf = (process: FormerProcess): FormerProcess => ({
  id: process.id,
  command: process.command.slice(0, MOST_CHARACTERS),
  args: process.args.slice(0, MOST_ARGUMENTS).map((text) => text.slice(0, MOST_CHARACTERS)),
  ...(process.cwd !== undefined && { cwd: process.cwd.slice(0, MOST_CHARACTERS) }),
  tty: process.tty,
  interactive: process.interactive,
  createdAtMs: process.createdAtMs,
})

/** Signals a whole process group, so that grandchildren end with the process that was started. */

/** Does nothing if the group is gone already, or if the process was never started. */
export const signalGroup = (pid: number | undefined, signal: NodeJS.Signals): void => {
  if (pid === undefined) return
  try {
    process.kill(-pid, signal)
  } catch {
    // No process is left in the group.
  }
}

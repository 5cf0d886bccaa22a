/** A directory that reports changes of what the list of sessions shows. */
import type { Directory } from "./directory.ts"

export const watchDirectory = (directory: Directory, changed: () => void): Directory => {
  const watch =
    <Args extends readonly unknown[], Result>(run: (...args: Args) => Result) =>
    (...args: Args): Result => {
      const result = run(...args)
      changed()
      return result
    }
  return {
    ...directory,
    addSession: watch(directory.addSession),
    adoptSession: watch(directory.adoptSession),
    updateSession: watch(directory.updateSession),
    setMembers: watch(directory.setMembers),
    markRead: watch(directory.markRead),
  }
}

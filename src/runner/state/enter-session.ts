/**
 * What happens before a runner reads its state directory. If the disk was another session's, that session's part is removed:
 * its processes first, then its mark, then its files. A removal that was killed goes on at the next start, whichever session
 * that belongs to: a part without its mark is nobody's.
 */
import { existsSync } from "node:fs"
import type { Clock } from "../../lib/clock.ts"
import { digestOf } from "../../lib/digest.ts"
import type { Log } from "../../lib/log.ts"
import { machineFolder, sessionFolder } from "../../lib/state-folders.ts"
import { endLeftProcesses } from "./end-left-processes.ts"
import { readOwner, removeOwner, writeOwner } from "./owner-mark.ts"
import { moveTree, removeTree } from "./remove-tree.ts"
import { removeTraces } from "./traces.ts"

export interface EnterOptions {
  readonly stateDir: string
  readonly sessionId: string
  /** Home directories on a disk that is the sandbox's own; none on a person's machine. */
  readonly homes: readonly string[]
  /** A former session's part becomes this folder; without it, it is removed. */
  readonly setAside?: string | undefined
  readonly clock: Clock
  readonly log: Log
}

export interface Step {
  readonly name: string
  readonly run: () => Promise<void> | void
}

/** Each step can be repeated, and the list is decided again at each start. Empty: the disk is this session's. */
export const stepsToEnter = (options: EnterOptions): readonly Step[] => {
  const { stateDir, sessionId, homes, clock, log } = options
  const machine = machineFolder(stateDir)
  const session = sessionFolder(stateDir)
  const wanted = digestOf(sessionId)
  const owners = { machine: readOwner(machine), session: readOwner(session) }
  if (owners.machine === wanted && owners.session === wanted) return []
  const mark: readonly Step[] = [
    { name: "mark the session part", run: () => writeOwner(session, sessionId) },
    { name: "mark the machine part", run: () => writeOwner(machine, sessionId) },
  ]
  const isNew = owners.machine === undefined && !existsSync(session)
  const isOwn =
    owners.session === wanted && (owners.machine === undefined || owners.machine === wanted)
  if (isNew || isOwn) return mark
  return [
    {
      name: "end the processes",
      run: async () => {
        const processes = await endLeftProcesses(stateDir, session, clock)
        log.info("state.other-session", { processes })
      },
    },
    { name: "remove the traces", run: () => removeTraces(homes) },
    { name: "remove the mark", run: () => removeOwner(session) },
    { name: "remove the session part", run: () => putAway(session, options.setAside) },
    ...mark,
  ]
}

const putAway = (session: string, setAside: string | undefined): void => {
  if (setAside === undefined || !existsSync(session)) return removeTree(session)
  let target = setAside
  for (let number = 2; existsSync(target); number += 1) target = `${setAside}-${number}`
  moveTree(session, target)
}

export const enterSession = async (options: EnterOptions): Promise<void> => {
  for (const { run } of stepsToEnter(options)) await run()
}

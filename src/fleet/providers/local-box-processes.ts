/** Starts, freezes and ends the processes of a sandbox of this machine. */
import { join } from "node:path"
import { type Clock, sleep } from "../../lib/clock.ts"
import type { Boxes } from "./local-boxes.ts"
import {
  identityOf,
  isAlive,
  joining,
  killTree,
  type ProcessGroup,
  type ProcessIdentity,
  terminate,
} from "./local-processes.ts"
import type { Box, BoxMode, Launch } from "./local-record.ts"

export interface BoxProcesses {
  readonly isRunning: (box: Box) => boolean
  /** Resolves with a text if the sandbox does not start. */
  readonly start: (box: Box) => Promise<string | undefined>
  /** Resolves when no process runs any more. False: some still did after the time limit, and all continue. */
  readonly freeze: (box: Box) => Promise<boolean>
  readonly thaw: (box: Box) => void
  /** Asks the runner to end, which stores what it knows, and kills what is left. A frozen sandbox does not run once more. */
  readonly end: (box: Box) => Promise<boolean>
  /** Of the whole sandbox, also those that started it and its helpers. */
  readonly members: (box: Box) => readonly number[]
  /** False: some processes still exist after the time limit. */
  readonly kill: (box: Box) => Promise<boolean>
}

export interface BoxProcessesOptions {
  readonly boxes: Boxes
  readonly clock: Clock
  readonly groupOf: (name: string) => ProcessGroup
  readonly modeOf: (box: Box) => BoxMode
}

/** A runner ends within ten seconds. */
const END_MS = 12_000
const KILL_MS = 5000
const FREEZE_MS = 5000
const FREEZE_TRY_MS = 300

const isRunning = (box: Box): boolean => box.process !== undefined && isAlive(box.process)

const rootsOf = (box: Box): readonly ProcessIdentity[] => [
  ...(box.process ? [box.process] : []),
  ...box.helpers,
]

export const boxProcesses = (options: BoxProcessesOptions): BoxProcesses => {
  const { boxes, clock, groupOf, modeOf } = options

  const spawn = (box: Box, { argv, cwd, environment, input }: Launch, log: string) => {
    const child = Bun.spawn([...argv], {
      cwd,
      env: environment,
      stdin: input === undefined ? "ignore" : Bun.file(input),
      stdout: "ignore",
      stderr: Bun.file(join(boxes.folder(box.name), log)),
      // It outlives this process.
      detached: true,
    })
    child.unref()
    return identityOf(child.pid)
  }

  const start = async (box: Box): Promise<string | undefined> => {
    const own = modeOf(box)
    groupOf(box.name).prepare(box.resources)
    const joinGroup = groupOf(box.name).join(box.resources)
    const helpers = own
      .helpers(box)
      .map((launch) =>
        spawn(box, { ...launch, argv: [...joining(joinGroup), ...launch.argv] }, "helper.log"),
      )
    // Before the sandbox itself: a crash in between leaves processes that are found and ended.
    boxes.write({ ...box, helpers })
    const process = spawn(box, own.launch(box, joinGroup), "runner.log")
    const started = { ...box, isFrozen: false, process, helpers }
    try {
      boxes.write(started)
    } catch (error) {
      // Another process of the fleet has ended the sandbox meanwhile: without a record nothing would find these.
      for (const { pid } of [process, ...helpers]) killTree(pid)
      throw error
    }
    return own.untilStarted(started)
  }

  /** A process that waits for its file system in user space cannot stop once that has stopped: tries are short. */
  const freeze = async (box: Box): Promise<boolean> => {
    const group = groupOf(box.name)
    const roots = rootsOf(box)
    const until = clock.now() + FREEZE_MS
    while (clock.now() < until) {
      group.freeze(roots)
      const tryUntil = clock.now() + FREEZE_TRY_MS
      while (clock.now() < tryUntil) {
        if (group.isFrozen(roots)) return true
        await sleep(clock, 2)
      }
      group.thaw(roots)
      await sleep(clock, 10)
    }
    return false
  }
  const thaw = (box: Box) => groupOf(box.name).thaw(rootsOf(box))
  const members = (box: Box) => groupOf(box.name).members(rootsOf(box))

  const kill = async (box: Box): Promise<boolean> => {
    const group = groupOf(box.name)
    const roots = rootsOf(box)
    const until = clock.now() + KILL_MS
    // Repeated: a process that has just been started may not have joined its group yet.
    while (roots.some(isAlive) && clock.now() < until) {
      group.kill(roots)
      await sleep(clock, 10)
    }
    if (roots.some(isAlive)) return false
    group.kill(roots)
    group.killLaunchers()
    for (let attempt = 0; attempt < 50; attempt++) {
      try {
        group.remove()
        return true
      } catch {
        // Processes of the group are still being reaped.
        await sleep(clock, 20)
      }
    }
    return false
  }

  const end = async (box: Box): Promise<boolean> => {
    const { process, isFrozen } = box
    if (process !== undefined && !isFrozen) {
      terminate(process)
      const until = clock.now() + END_MS
      while (isAlive(process) && clock.now() < until) await sleep(clock, 50)
    }
    return kill(box)
  }

  return { isRunning, start, freeze, thaw, members, end, kill }
}

/**
 * The local sandboxes of a `serve` that has ended. They go on without it. If none comes for long, the watchdog of the last one ends
 * them: their disks and records stay, as after a restart of the machine, and the next `serve` goes on with them.
 */
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { type Clock, sleep } from "../../lib/clock.ts"
import { shortDigest } from "../../lib/digest.ts"
import { hasOwner, startWatchdog, type WatchdogOptions } from "../../lib/watchdog.ts"
import { boxProcesses } from "./local-box-processes.ts"
import { openBoxes } from "./local-boxes.ts"
import { findCgroups } from "./local-cgroups.ts"
import { processGroup } from "./local-processes.ts"

const watchdogsOf = (root: string): string => join(root, "watchdogs")

const REMOVE_TRIES = 50
const REMOVE_PAUSE_MS = 20

const open = (root: string, clock: Clock) => {
  const cgroups = findCgroups()
  const fleetId = shortDigest(root, 10)
  const groupOf = (name: string) => processGroup(cgroups, `${fleetId}-${name}`)
  const boxes = openBoxes(root)
  const modeOf = () => {
    throw new Error("bug: a watchdog starts no sandbox")
  }
  return {
    cgroups,
    boxes: boxes.all,
    own: groupOf("watchdog"),
    processes: boxProcesses({ boxes, clock, groupOf, modeOf }),
  }
}

export interface OrphanWatch {
  /** `serve` ends. With sandboxes that go on, the watchdog stays. */
  readonly leave: () => Promise<void>
}

/** `root`: the directory of the local sandboxes. */
export const watchForOrphans = (
  options: Omit<WatchdogOptions, "folder" | "prepare"> & { readonly root: string },
): OrphanWatch => {
  const { root, clock } = options
  const { boxes, own, processes } = open(root, clock)
  // A group of its own, as the sandboxes have: who ends the group of `serve`, as systemd does, leaves the sandboxes.
  own.prepare({})
  const watchdog = startWatchdog({ ...options, folder: watchdogsOf(root), prepare: own.join({}) })
  return {
    leave: async () => {
      if (boxes().some(processes.isRunning)) return
      watchdog.release()
      for (let tries = 0; tries < REMOVE_TRIES; tries += 1) {
        try {
          return own.remove()
        } catch {
          // Its processes are still being reaped, or another `serve` has one in it.
          await sleep(clock, REMOVE_PAUSE_MS)
        }
      }
    },
  }
}

/** What the watchdog does when its time is over. */
export const endOrphanedBoxes = async (root: string, clock: Clock): Promise<void> => {
  if (hasOwner(watchdogsOf(root))) return
  const { boxes, cgroups, own, processes } = open(root, clock)
  await Promise.all(boxes().filter(processes.isRunning).map(processes.end))
  if (cgroups.root === undefined) return
  try {
    writeFileSync(join(cgroups.root, "cgroup.procs"), "0")
    own.remove()
  } catch {
    // An empty group stays, which the next `serve` uses.
  }
}

/**
 * What an isolated sandbox has written: its upper directory and its volumes, files without a name that its processes have open, and what it
 * still sees of the layers that its session's earlier sandboxes have written. The base snapshot is nobody's.
 */
import type { Clock } from "../../lib/clock.ts"
import { type DiskSize, noSize } from "../core/disk-quota.ts"
import { less, measureNameless, measureTrees, sum } from "./local-measure.ts"
import type { Box, BoxMode } from "./local-record.ts"

export interface IsolatedMeasureOptions {
  readonly clock: Clock
  /** The command that runs another one as a user who can read the files of all sandboxes. */
  readonly within: readonly string[]
  readonly folderOf: (name: string) => string
  /** Volumes that the sandbox may write, and where it sees them. */
  readonly volumesOf: (box: Box) => readonly { readonly folder: string; readonly path: string }[]
  readonly layersOf: (box: Box) => {
    readonly own: readonly string[]
    readonly shared: readonly string[]
  }
  /** The command that runs another one in the sandbox, as its runner. Undefined: it does not run. */
  readonly enter: (box: Box) => readonly string[] | undefined
}

export interface IsolatedMeasure {
  readonly measure: BoxMode["measure"]
  /** Its layers hold much more than it still sees of them. */
  readonly isWasteful: (box: Box) => boolean
  readonly forget: (box: Box) => void
}

/** The part of its lower layers that a sandbox still sees, and what they take. */
interface Lower {
  readonly seen: DiskSize
  readonly taken: DiskSize
  readonly at: number
  readonly tookMs: number
}

const AGAIN_MS = 5000
const SHARE = 20
const WASTE_BYTES = 256 * 1024 * 1024

export const isolatedMeasure = (options: IsolatedMeasureOptions): IsolatedMeasure => {
  const { clock, within, folderOf, volumesOf, layersOf, enter } = options
  const lowers = new Map<string, Lower>()
  /** A layer does not change. */
  const layers = new Map<string, Promise<DiskSize>>()

  const sizeOfLayer = (path: string): Promise<DiskSize> => {
    const known = layers.get(path)
    if (known) return known
    const limit = new AbortController().signal
    const size = measureTrees([path], { within, limit, isUrgent: false })
    layers.set(path, size)
    size.catch(() => layers.delete(path))
    return size
  }
  const sizeOfLayers = async (paths: readonly string[]): Promise<DiskSize> =>
    sum(...(await Promise.all(paths.map(sizeOfLayer))))

  /** Of a sandbox whose processes run, since a file system of theirs may answer. */
  const lookAtLower = async (box: Box, limit: AbortSignal): Promise<Lower> => {
    const at = clock.now()
    const { own, shared } = layersOf(box)
    const entry = enter(box)
    const [upper, all, taken, ofNobody] = await Promise.all([
      measureTrees([`${folderOf(box.name)}/disk/upper`], { within, limit, isUrgent: false }),
      entry ? measureTrees(["/"], { within: entry, limit, isUrgent: false }) : undefined,
      sizeOfLayers(own),
      sizeOfLayers(shared),
    ])
    const seen = all ? less(all, upper, ofNobody) : taken
    const lower = { seen, taken, at, tookMs: clock.now() - at }
    lowers.set(box.name, lower)
    return lower
  }

  const lowerOf = async (box: Box, limit: AbortSignal, isHeld: boolean): Promise<DiskSize> => {
    const { own } = layersOf(box)
    if (own.length === 0) return noSize
    const known = lowers.get(box.name)
    if (isHeld) return known?.seen ?? sizeOfLayers(own)
    const isOld = !known || clock.now() >= known.at + Math.max(AGAIN_MS, known.tookMs * SHARE)
    return (isOld ? await lookAtLower(box, limit) : known).seen
  }

  const nameless = async (box: Box, limit: AbortSignal, isHeld: boolean): Promise<DiskSize> => {
    const entry = enter(box)
    // The file system of this kind is a process of the sandbox, too.
    if (!entry || (isHeld && box.disk === "fuse")) return noSize
    const paths = ["/", ...volumesOf(box).map(({ path }) => path)]
    return measureNameless(paths, { within: entry, limit, isUrgent: isHeld })
  }

  return {
    measure: async (box, limit, isHeld) => {
      const trees = [folderOf(box.name), ...volumesOf(box).map(({ folder }) => folder)]
      return sum(
        ...(await Promise.all([
          measureTrees(trees, { within, limit, isUrgent: isHeld }),
          nameless(box, limit, isHeld),
          lowerOf(box, limit, isHeld),
        ])),
      )
    },
    isWasteful: (box) => {
      const lower = lowers.get(box.name)
      return (
        lower !== undefined &&
        box.disk === "overlay" &&
        lower.taken.bytes > 2 * lower.seen.bytes + WASTE_BYTES
      )
    },
    forget: ({ name }) => void lowers.delete(name),
  }
}

/** The records of the sandboxes of this machine: a folder each, which holds the record and the logs. */
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs"
import { join } from "node:path"
import { replaceFile } from "../../lib/replace-file.ts"
import { identityOf, isAlive, type ProcessIdentity } from "./local-processes.ts"
import { type Box, boxSchema } from "./local-record.ts"
import { errorCode } from "../../lib/error-code.ts"

export interface Boxes {
  /** This process, as the maker of new sandboxes. */
  readonly maker: ProcessIdentity
  readonly folder: (name: string) => string
  readonly read: (name: string) => Box | undefined
  readonly all: () => readonly Box[]
  /** False if the name is taken. */
  readonly add: (box: Box) => boolean
  /** Replaces the record of a sandbox that was added. */
  readonly write: (box: Box) => void
  readonly remove: (name: string) => void
}

const RECORD = "box.json"

export const openBoxes = (root: string): Boxes => {
  const boxes = join(root, "boxes")
  /** Folders on their way in or out of `boxes`. Each appears there, and disappears, at once. */
  const aside = join(root, "aside")
  for (const place of [boxes, aside]) mkdirSync(place, { recursive: true, mode: 0o700 })
  const maker = identityOf(process.pid)
  // Left by a process that was killed while it added or removed a sandbox.
  for (const name of readdirSync(aside)) {
    const [pid, startTime = ""] = name.split("-")
    if (!isAlive({ pid: Number(pid), startTime }))
      rmSync(join(aside, name), { recursive: true, force: true })
  }
  const asideOf = (name: string) => join(aside, `${maker.pid}-${maker.startTime}-${name}`)
  const folder = (name: string) => join(boxes, name)
  const record = (name: string) => join(folder(name), RECORD)
  const read = (name: string): Box | undefined => {
    if (!/^[\w-]{1,100}$/.test(name)) return undefined
    try {
      return boxSchema.parse(JSON.parse(readFileSync(record(name), "utf8")))
    } catch (error) {
      // It does not exist, or another process of the fleet has just removed it.
      if (errorCode(error) === "ENOENT") return undefined
      throw error
    }
  }
  return {
    maker,
    folder,
    read,
    all: () => readdirSync(boxes).flatMap((name) => read(name) ?? []),
    add: (box) => {
      // A folder without a record would be in no list.
      const made = asideOf(box.name)
      mkdirSync(made, { recursive: true, mode: 0o700 })
      // The environment holds tokens, so the file is for this user only.
      writeFileSync(join(made, RECORD), JSON.stringify(box), { mode: 0o600 })
      try {
        renameSync(made, folder(box.name))
        return true
      } catch (error) {
        rmSync(made, { recursive: true, force: true })
        if (existsSync(folder(box.name))) return false
        throw error
      }
    },
    write: (box) => replaceFile(record(box.name), JSON.stringify(box)),
    remove: (name) => {
      rmSync(asideOf(name), { recursive: true, force: true })
      if (existsSync(folder(name))) renameSync(folder(name), asideOf(name))
      rmSync(asideOf(name), { recursive: true, force: true })
    },
  }
}

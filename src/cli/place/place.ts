/**
 * A place is the state directory that `up` keeps for one working directory. Its name is derived from the real path, so
 * that two directories never share a session.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, realpathSync } from "node:fs"
import { basename, dirname, join } from "node:path"
import { z } from "zod"
import { digestOf } from "../../lib/digest.ts"
import { readJson } from "../../lib/json.ts"
import { replaceFile } from "../../lib/replace-file.ts"
import { isAlive } from "../../lib/process-identity.ts"

const placeRecord = z.object({
  /** The real path of the working directory. */
  directory: z.string(),
  /** The `up` that used the place last; it may have ended. */
  owner: z.object({ pid: z.number(), startTime: z.number(), since: z.number() }).optional(),
})

export type PlaceRecord = Readonly<z.output<typeof placeRecord>>
export type PlaceOwner = NonNullable<PlaceRecord["owner"]>

export interface Place extends PlaceRecord {
  readonly stateDir: string
}

/** Readable in a listing, and unique by the digest of the whole path. */
export const placeName = (directory: string): string => {
  const name =
    basename(directory)
      .replaceAll(/[^A-Za-z0-9._-]/g, "_")
      .slice(0, 40) || "root"
  return `${name}-${digestOf(directory)
    .replace(/^sha256:/, "")
    .slice(0, 16)}`
}

/** A second place of a directory has a session with another name, so that lists and messages can tell them apart. */
export const sessionNameIn = (stateDir: string, name: string): string =>
  `${name}${/-[0-9a-f]{16}(\.\d+)$/.exec(basename(stateDir))?.[1] ?? ""}`

export const placesFolder = (base: string): string => join(base, "places")

/** The real path, or the path itself if it does not exist. */
export const realPath = (path: string): string => {
  try {
    return realpathSync(path)
  } catch {
    return path
  }
}

const fileOf = (stateDir: string): string => join(stateDir, "place.json")

export const readPlace = (stateDir: string): Place | undefined => {
  try {
    const record = readJson(placeRecord, readFileSync(fileOf(stateDir), "utf8"))
    return record && { stateDir, ...record }
  } catch {
    return undefined
  }
}

export const writePlace = ({ stateDir, ...record }: Place): void => {
  mkdirSync(stateDir, { recursive: true, mode: 0o700 })
  replaceFile(fileOf(stateDir), `${JSON.stringify(record)}\n`)
}

/** Every place below `base`, by directory. The second place of a directory follows its first one. */
export const listPlaces = (base: string): readonly Place[] =>
  (existsSync(placesFolder(base)) ? readdirSync(placesFolder(base)) : [])
    .toSorted()
    .flatMap((name) => readPlace(join(placesFolder(base), name)) ?? [])
    .toSorted((one, other) => one.directory.localeCompare(other.directory))

/** The `up` that runs in the place now. */
export const runningOwner = ({ owner }: PlaceRecord): PlaceOwner | undefined =>
  owner && isAlive(owner) ? owner : undefined

/** The directory itself, then its parents: a command in a subdirectory finds the `up` of the project. */
const withParents = (directory: string): readonly string[] => {
  const parent = dirname(directory)
  return parent === directory ? [directory] : [directory, ...withParents(parent)]
}

/** The place of a running `up` for this directory or the nearest of its parents. */
export const findRunningPlace = (base: string, directory: string): Place | undefined => {
  const running = listPlaces(base).filter(runningOwner)
  return withParents(directory).flatMap(
    (path) => running.find((place) => place.directory === path) ?? [],
  )[0]
}

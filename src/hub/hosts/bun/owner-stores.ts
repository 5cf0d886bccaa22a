/** The shared stores of one machine: one database per owner, so that no query can reach the rows of another owner. */
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import type { Clock } from "../../../lib/clock.ts"
import { digestOf } from "../../../lib/digest.ts"
import { LOCAL_OWNER, type Owner, parseOwner } from "../../access/ownership.ts"
import {
  createSharedStore,
  type SharedStore,
  type SharedStoreOptions,
} from "../../shared-store/shared-store.ts"
import type { HookAnswer } from "../../handlers/triggers.ts"
import type { PersonaText } from "../../shared-store/personas.ts"
import { type BunSql, openBunSql } from "./sql.ts"
import { timerAlarm } from "./timer-alarm.ts"

export interface OwnerStoresOptions {
  readonly folder: string
  /** The database of `user:local`, which existing state directories have. */
  readonly localSql: BunSql
  readonly clock: Clock
  /** How a store's effects reach the sessions of its owner. */
  readonly deliveries: (owner: Owner) => SharedStoreOptions["deliveries"]
  readonly report: (event: string, fields: Readonly<Record<string, unknown>>) => void
}

export interface OwnerStores extends Pick<SharedStore, "hook" | "hookStatus"> {
  readonly of: (owner: Owner) => SharedStore
  /** Opens every store, so that schedules fire and undelivered work is delivered. */
  readonly start: () => void
  /** Cancels the alarms. */
  readonly stop: () => void
  readonly close: () => void
}

interface Opened {
  readonly store: SharedStore
  readonly stop: () => void
  readonly close: () => void
}

/** A persona is a Markdown file: the file name is its name. */
const readPersonas = (folder: string): readonly PersonaText[] =>
  existsSync(folder)
    ? readdirSync(folder)
        .filter((file) => file.endsWith(".md"))
        .map((file) => ({
          slug: file.slice(0, -3),
          content: readFileSync(join(folder, file), "utf8"),
        }))
    : []

const OWNER_FILE = "owner"

export const createOwnerStores = (options: OwnerStoresOptions): OwnerStores => {
  const { folder, localSql, clock } = options
  const ownersFolder = join(folder, "owners")
  const opened = new Map<Owner, Opened>()
  let stopped = false

  const folderOf = (owner: Owner) =>
    owner === LOCAL_OWNER ? folder : join(ownersFolder, digestOf(owner).replace("sha256:", ""))

  const open = (owner: Owner): Opened => {
    const isLocal = owner === LOCAL_OWNER
    const sql = isLocal ? localSql : openBunSql(join(folderOf(owner), "commons.db"))
    // The folder's name is a digest, because an owner's name may be longer than a file name.
    if (!isLocal) writeFileSync(join(folderOf(owner), OWNER_FILE), owner, { mode: 0o600 })
    const alarm = timerAlarm(clock, () => {
      if (!stopped) store.alarm()
    })
    const store: SharedStore = createSharedStore({
      sql,
      tools: { now: clock.now, newId: () => crypto.randomUUID(), digest: digestOf },
      alarm,
      deliveries: options.deliveries(owner),
      report: options.report,
      compact: sql.compact,
      personaFiles: () => readPersonas(join(folderOf(owner), "personas")),
    })
    return {
      store,
      stop: () => alarm.set(undefined),
      close: () => {
        if (!isLocal) sql.close()
      },
    }
  }
  const of = (owner: Owner): SharedStore => {
    const known = opened.get(owner)
    if (known) return known.store
    const made = open(owner)
    opened.set(owner, made)
    return made.store
  }
  const stored = (): readonly Owner[] =>
    existsSync(ownersFolder)
      ? readdirSync(ownersFolder).flatMap(
          (name) => parseOwner(readFileSync(join(ownersFolder, name, OWNER_FILE), "utf8")) ?? [],
        )
      : []

  /** A trigger's id is random and in one store only; the secret is checked by that store. */
  const firstOf = (ask: (store: SharedStore) => HookAnswer): HookAnswer => {
    for (const { store } of opened.values()) {
      const answer = ask(store)
      if (answer.status !== 404) return answer
    }
    return ask(of(LOCAL_OWNER))
  }

  return {
    of,
    hookStatus: (trigger, secret) => firstOf((store) => store.hookStatus(trigger, secret)),
    hook: (trigger, call) => firstOf((store) => store.hook(trigger, call)),
    start: () => {
      for (const owner of [LOCAL_OWNER, ...stored()]) of(owner).start()
    },
    stop: () => {
      stopped = true
      for (const { stop } of opened.values()) stop()
    },
    close: () => {
      for (const { close } of opened.values()) close()
    },
  }
}

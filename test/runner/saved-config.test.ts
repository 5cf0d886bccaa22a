/** The configuration that a runner keeps for its next start, and who can read it. */
import type { Database } from "bun:sqlite"
import { afterEach, beforeEach, expect, test } from "bun:test"
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { openStateDb, readFact, writeFact } from "../../src/lib/state-db.ts"
import { openSavedConfig, SAVED_CONFIG_FACT } from "../../src/runner/saved-config.ts"
import { silentLog } from "../kit/log.ts"

const KEY = "sk-of-the-saved-config"
const config = { providerKeys: { openai: KEY } }
let folder: string
let db: Database

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "saved-config-"))
  db = openStateDb(folder)
})
afterEach(() => {
  db.close()
  rmSync(folder, { recursive: true, force: true })
})

const openWith = (token: string | undefined) => openSavedConfig(db, () => token, silentLog)
/** The database, its log and whatever else is there. */
const filesContain = (text: string): boolean =>
  readdirSync(folder).some((name) => readFileSync(join(folder, name)).includes(text))

test("a saved configuration is read with the same token, and no file contains its keys", () => {
  openWith("token-1").write(config)
  expect(openWith("token-1").read()).toEqual(config)
  expect(filesContain(KEY)).toBe(false)
})

test("with another token, with none or after a change of its bytes it counts as not saved", () => {
  openWith("token-1").write(config)
  expect(openWith("token-2").read()).toEqual({})
  expect(openWith(undefined).read()).toEqual({})
  const stored = readFact(db, SAVED_CONFIG_FACT) ?? ""
  writeFact(db, SAVED_CONFIG_FACT, `${stored.slice(0, -8)}AAAAAAAA`)
  expect(openWith("token-1").read()).toEqual({})
  writeFact(db, SAVED_CONFIG_FACT, "sealed:short")
  expect(openWith("token-1").read()).toEqual({})
})

test("a configuration that a runner of before saved in clear text is read, and its keys leave the files", () => {
  writeFact(db, SAVED_CONFIG_FACT, JSON.stringify(config))
  expect(filesContain(KEY)).toBe(true)
  expect(openWith("token-1").read()).toEqual(config)
  expect(filesContain(KEY)).toBe(false)
  expect(openWith("token-1").read()).toEqual(config)
})

test("without a token the configuration is kept as it is, and nothing is read where nothing was saved", () => {
  expect(openWith(undefined).read()).toEqual({})
  openWith(undefined).write(config)
  expect(openWith(undefined).read()).toEqual(config)
})

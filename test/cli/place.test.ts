/** Names of places, their lock, and the session after an ended one. */
import { expect, onTestFinished, test } from "bun:test"
import * as fc from "fast-check"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { takeLock } from "../../src/cli/place/lock.ts"
import { nextSession, sessionBefore } from "../../src/cli/place/next-session.ts"
import { placeName, sessionNameIn } from "../../src/cli/place/place.ts"

test("two directories never have the same place, and every name is one plain path element", () => {
  const path = fc
    .array(fc.string({ minLength: 1 }), { maxLength: 4 })
    .map((all) => `/${all.join("/")}`)
  fc.assert(
    fc.property(path, path, (one, other) => {
      expect(placeName(one)).toMatch(/^[A-Za-z0-9._-]{1,40}-[0-9a-f]{16}$/)
      expect(placeName(one) === placeName(other)).toBe(one === other)
    }),
  )
})

test("the session of a directory's second place has a name of its own", () => {
  const first = placeName("/home/me/project.2")
  expect(sessionNameIn(`/places/${first}`, "local")).toBe("local")
  expect(sessionNameIn(`/places/${first}.2`, "local")).toBe("local.2")
  expect(sessionNameIn("/chosen/by.2", "local")).toBe("local")
})

test("the next session is the first of its series that has not ended, and knows the one before it", () => {
  fc.assert(
    fc.property(fc.nat({ max: 20 }), (ended) => {
      const done = new Set(
        Array.from({ length: ended }, (_, at) => (at === 0 ? "s" : `s-${at + 1}`)),
      )
      const next = nextSession("s", (id) => done.has(id))
      expect(done.has(next)).toBeFalse()
      const before = sessionBefore(next, "s")
      expect(before === undefined ? ended : Number(done.has(before))).toBe(ended === 0 ? 0 : 1)
    }),
  )
})

test("a lock is held by one owner at a time and is free after its process was killed", async () => {
  const folder = mkdtempSync(join(tmpdir(), "lock-"))
  const children: Bun.Subprocess[] = []
  onTestFinished(() => {
    for (const child of children) child.kill("SIGKILL")
    rmSync(folder, { recursive: true })
  })
  const first = takeLock(folder)
  expect(first).toBeDefined()
  const module = join(import.meta.dir, "../../src/cli/place/lock.ts")
  const program = `import { takeLock } from ${JSON.stringify(module)}
    const lock = takeLock(${JSON.stringify(folder)})
    console.log(lock ? "taken" : "busy")
    if (lock) setTimeout(() => lock.release(), 10_000)`
  const start = async () => {
    const child = Bun.spawn([process.execPath, "-e", program], { stdout: "pipe", stderr: "ignore" })
    children.push(child)
    const { value } = await child.stdout.getReader().read()
    return { child, said: new TextDecoder().decode(value).trim() }
  }
  expect((await start()).said).toBe("busy")
  first?.release()
  const { child, said } = await start()
  expect(said).toBe("taken")
  expect(takeLock(folder)).toBeUndefined()
  child.kill("SIGKILL")
  await child.exited
  const last = takeLock(folder)
  expect(last).toBeDefined()
  last?.release()
})

/**
 * Applies known faults to a copy of the machine's source and reports which properties notice them. Run it by hand with
 * `bun test/fleet/core/life-mutants.ts`; the soak tests run it too.
 */
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { lifeProperties } from "./life-properties.ts"
import type { Machine } from "./life-world.ts"

interface Mutant {
  readonly name: string
  /** Each text occurs exactly once in its file. */
  readonly edits: readonly {
    readonly file: string
    readonly text: string
    readonly replacement: string
  }[]
}

const edit = (file: string, text: string, replacement: string) => ({ file, text, replacement })

export const mutants: readonly Mutant[] = [
  {
    name: "a create in doubt is repeated without a look",
    edits: [
      edit(
        "life-answers.ts",
        "withDelayNote(retryLater(life, why, at, afterMs), call, why)",
        'withDelayNote(retryLater(enter(life, "absent", {}), why, at, afterMs), call, why)',
      ),
    ],
  },
  {
    name: "the create of a dead replica is not looked for",
    edits: [
      edit(
        "life-state.ts",
        "if (life.ref === undefined) return life",
        'if (life.ref === undefined) return call.do === "create" ? enter(life, "absent", {}) : life',
      ),
    ],
  },
  {
    name: "a terminate that timed out counts as done",
    edits: [
      edit(
        "life-answers.ts",
        'if (answer.is !== "ok" && answer.is !== "missing") {',
        'if (answer.is !== "ok" && answer.is !== "missing" && !(call.do === "terminate" && answer.is === "unknown")) {',
      ),
    ],
  },
  {
    name: "work does not undo the snapshot",
    edits: [
      edit(
        "life-state.ts",
        "...(busy || used || (linked && !isTouched(life)) ? worked(unprepared(life)) : life),",
        "...life,",
      ),
    ],
  },
  {
    name: "the sweep ends nothing",
    edits: [
      edit(
        "life-state.ts",
        "if (life.pending !== undefined || isInDoubt(life)) return life",
        "if (life.number >= 0) return life",
      ),
    ],
  },
  {
    // Two rules protect a create under way: the sweep waits for it, and a sandbox of the current generation is looked at
    // before it is ended. Either one alone is enough, so both are removed.
    name: "the sweep does not wait for calls under way",
    edits: [
      edit("life-state.ts", "if (life.pending !== undefined || isInDoubt(life)) return life", ""),
      edit(
        "life-state.ts",
        'if (life.wanted !== "ended" && life.ref === undefined && isNew)',
        "if (life.number < 0 && isNew)",
      ),
    ],
  },
  {
    name: "a busy sandbox is put to sleep",
    edits: [
      edit("life-next.ts", "if ((isBusy || hasPrompts(life, at))", "if (hasPrompts(life, at)"),
      edit("life-next.ts", "if (!isBusy && pauses", "if (pauses"),
      edit("life-next.ts", "if (!isBusy && isKept(life))", "if (isKept(life))"),
    ],
  },
  {
    name: "a failed snapshot loses the sandbox",
    edits: [
      edit(
        "life-answers.ts",
        'if (answer.is === "blocked") return [known]',
        'if (call.do === "snapshot") return [enter(known, "absent", {})]',
      ),
    ],
  },
  {
    name: "a failed resume creates a fresh sandbox",
    edits: [
      edit(
        "life-answers.ts",
        'if (answer.is === "blocked") return [known]',
        'if (call.do === "resume") return [enter(known, "absent", {})]',
      ),
    ],
  },
  {
    name: "a resumed sandbox that does not connect is thrown away",
    edits: [
      edit(
        "life-answers.ts",
        "booted({ ...life, expiresAt: value.expiresAt ?? life.expiresAt }, now)",
        'booted({ ...life, work: "none", expiresAt: value.expiresAt ?? life.expiresAt }, now)',
      ),
    ],
  },
  {
    name: "a runner that answers counts as down",
    edits: [
      edit("life-answers.ts", 'isTouched(life) && health !== "none" &&', "health === undefined &&"),
    ],
  },
  {
    name: "a runner of an earlier generation is believed",
    edits: [
      edit(
        "life-state.ts",
        'if (event.generation !== life.generation || life.phase === "ended") return life',
        'if (life.phase === "ended") return life',
      ),
    ],
  },
]

const source = join(import.meta.dir, "../../../src")

/** The machine with this fault, from a copy of its source. */
const load = async (mutant: Mutant, folder: string): Promise<Machine> => {
  for (const part of ["fleet", "wire"])
    cpSync(join(source, part), join(folder, part), { recursive: true })
  for (const { file, text, replacement } of mutant.edits) {
    const path = join(folder, "fleet/core", file)
    const pieces = readFileSync(path, "utf8").split(text)
    if (pieces.length !== 2)
      throw new Error(`${mutant.name}: the text occurs ${pieces.length - 1} times in ${file}`)
    writeFileSync(path, pieces.join(replacement))
  }
  const state = (await import(join(folder, "fleet/core/life-state.ts"))) as Pick<
    Machine,
    "step" | "dueAt"
  >
  const { newLife } = (await import(join(folder, "fleet/core/life.ts"))) as Pick<Machine, "newLife">
  return { newLife, step: state.step, dueAt: state.dueAt }
}

/** The names of the properties that this mutant breaks, within `runs` runs of each; at most the first `most`. */
export const caughtBy = async (
  mutant: Mutant,
  runs: number,
  most = lifeProperties.length,
): Promise<readonly string[]> => {
  // Below the repository, where the copy finds its packages.
  const folder = mkdtempSync(join(import.meta.dir, "../../node_modules/.life-mutant-"))
  try {
    const machine = await load(mutant, folder)
    const caught: string[] = []
    for (const { name, check } of lifeProperties) {
      if (caught.length === most) break
      try {
        check(machine, runs)
      } catch {
        caught.push(name)
      }
    }
    return caught
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

if (import.meta.main) {
  for (const mutant of mutants) {
    const caught = await caughtBy(mutant, 2000)
    process.stdout.write(`${mutant.name}: ${caught.length} of ${lifeProperties.length}\n`)
    for (const name of caught) process.stdout.write(`    ${name}\n`)
  }
}

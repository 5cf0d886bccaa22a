/** Skills and instructions: every tool, command, flag and path in them exists. */
import { describe, expect, test } from "bun:test"
import { Glob } from "bun"
import { join } from "node:path"
import { z } from "zod"
import { findRoute } from "../../src/runner/gateway/routes.ts"
import { tools } from "../../tools/index.ts"

const root = join(import.meta.dir, "../..")
const files = [
  ...new Glob("skills/*/SKILL.md").scanSync(root),
  ...new Glob("opencode-config/instructions/*.md").scanSync(root),
].toSorted()

const textOf = (file: string): Promise<string> => Bun.file(join(root, file)).text()

/** The text in backticks and in bash blocks. */
const quoted = (text: string): readonly string[] => [
  ...[...text.matchAll(/`([^`\n]+)`/g)].map(([, code]) => code ?? ""),
  ...[...text.matchAll(/```bash\n([\s\S]*?)```/g)].flatMap(([, lines]) =>
    (lines ?? "").split("\n"),
  ),
]

/** The commands and flags of `agent-browser --help` that the skills may use. */
const browserWords = new Set(
  "open snapshot fill click get wait errors console close screenshot --headed --text -i".split(" "),
)

/** Names with an underscore that are arguments, statuses or step types instead of tools. */
const otherNames = new Set([
  ...Object.values(tools).flatMap(({ args }) => Object.keys(args)),
  ..."agent_message needs_approval await_response await_timeout_ms".split(" "),
])

test("there are three skills, each with the name of its folder and a description", async () => {
  const skills = files.filter((file) => file.startsWith("skills/"))
  expect(skills).toEqual([
    "skills/browser/SKILL.md",
    "skills/sandbox-tunnels/SKILL.md",
    "skills/workflows/SKILL.md",
  ])
  for (const file of skills) {
    const [, name, description] =
      /^---\nname: (.+)\ndescription: (.+)\n---\n/.exec(await textOf(file)) ?? []
    expect(file).toBe(`skills/${name}/SKILL.md`)
    expect(description?.length).toBeGreaterThan(40)
  }
})

describe.each(files)("%s", (file) => {
  test(`${file} mentions only existing tools`, async () => {
    const named = quoted(await textOf(file)).filter((code) => /^[a-z]+(?:_[a-z]+)+$/.test(code))
    const unknown = named.filter((name) => !Object.hasOwn(tools, name) && !otherNames.has(name))
    expect(unknown).toEqual([])
  })

  test(`${file} mentions only existing commands and flags of agent-browser`, async () => {
    const used = quoted(await textOf(file))
      .flatMap((code) =>
        [...code.matchAll(/agent-browser ([^#|]+)/g)].map(([, rest]) => rest ?? ""),
      )
      .flatMap((rest) => {
        const [first = "", ...others] = rest.trim().split(/\s+/)
        return [first, ...others.filter((word) => /^--?[a-z]/.test(word))]
      })
    expect(used.filter((word) => !browserWords.has(word))).toEqual([])
  })

  test(`${file} mentions only existing paths of the gateway`, async () => {
    const paths = quoted(await textOf(file))
      .map((code) => code.replace("<name>", "web").replace("...", ""))
      .filter((code) => /^\/(?!tmp|dev)[\w./-]*$/.test(code) && !code.startsWith("/assets"))
    expect(paths.filter((path) => findRoute(path, "") === undefined)).toEqual([])
  })

  test(`${file} has fewer than 80 lines`, async () => {
    expect((await textOf(file)).split("\n").length).toBeLessThan(80)
  })
})

test("the example in the workflows skill is a valid workflow, and every step type is documented", async () => {
  const types = "bash tool agent agent_message approval conditional parallel loop subworkflow"
  const text = await textOf("skills/workflows/SKILL.md")
  const [, example = ""] = /```json\n([\s\S]*?)```/.exec(text) ?? []
  const step = z.looseObject({ id: z.string(), type: z.enum(types.split(" ")) })
  expect(z.object({ steps: z.array(step).min(1) }).safeParse(JSON.parse(example)).success).toBe(
    true,
  )
  for (const type of types.split(" ")) expect(text).toContain(`| \`${type}\` |`)
})

/** What the agent says and does in the pictures of the page: a small repository, an edit, a failing test, a question. */
import { mkdir } from "node:fs/promises"
import { join } from "node:path"
import { makeRepository } from "../test/kit/conversation.ts"
import { reasoning, reply, type ScriptedModel, text, tool, waitFor } from "../test/kit/model.ts"
import type { Sandbox } from "../test/kit/runner.ts"

const BEFORE = `/** Sessions of people who have logged in. */
export const createSessions = (now: () => number, idleMs: number) => {
  const sessions = new Map<string, { usedAt: number }>()
  return {
    use: (id: string) => {
      const session = sessions.get(id)
      if (session === undefined) return undefined
      session.usedAt = now()
      return session
    },
    sweep: () => sessions.forEach(({ usedAt }, id) => now() - usedAt > idleMs && sessions.delete(id)),
  }
}
`
const AFTER = BEFORE.replace(
  `    use: (id: string) => {
      const session = sessions.get(id)
      if (session === undefined) return undefined
      session.usedAt = now()
      return session
    },
`,
  `    find: (id: string) => sessions.get(id),
    /** Only a request that was let in counts as use. */
    renew: (session: { usedAt: number }) => {
      session.usedAt = now()
    },
`,
)
const TEST = `test/sessions.test.ts:
  42 |   await expect(get("/editor/", { cookie })).resolves.toBe(403)
  43 |   clock.advance(2 * 60_000)
> 44 |   await expect(get("/editor/", { cookie })).resolves.toBe(401)
                                                           ^
  error: expected 401, received 200

 2 pass
 1 fail
Ran 3 tests across 1 file. [38.00ms]`

const ANSWER = `A refused request no longer renews the cookie. \`find\` only looks, and \`renew\` is called where the request is let in:

\`\`\`ts
const session = sessions.find(id)
if (session === undefined) return refuse(401)
if (!mayEnter(session, path)) return refuse(403)
sessions.renew(session)
\`\`\`

| request | before | now |
|---|---|---|
| let in | renewed | renewed |
| another origin | **renewed**, 403 | 403 |
| after the idle time | 200 | 401 |

The change is in \`src/sessions.ts:8\`. Tickets are still redeemed before the check; they work once anyway.`

/** A repository with one source file and a program that prints the test's output. */
export const furnish = async (sandbox: Sandbox): Promise<void> => {
  const { workDir } = sandbox
  await mkdir(join(workDir, "src"), { recursive: true })
  await Bun.write(join(workDir, "src/sessions.ts"), BEFORE)
  await Bun.write(join(workDir, "check"), `#!/bin/sh\ncat <<'END'\n${TEST}\nEND\nexit 1\n`)
  await makeRepository(sandbox)
}

export const script = (model: ScriptedModel, workDir: string, held: Promise<unknown>): void => {
  const file = join(workDir, "src/sessions.ts")
  const plan = (done: number) =>
    tool("todowrite", {
      todos: ["Find where the cookie is renewed", "Renew it after the checks", "Run the tests"].map(
        (content, index) => ({
          content,
          status: index < done ? "completed" : index === done ? "in_progress" : "pending",
          priority: "medium",
        }),
      ),
    })
  model.on("renewal", [
    reply(reasoning("**Reading the sessions** first."), plan(0)),
    reply(tool("read", { filePath: file }), tool("grep", { pattern: "usedAt", path: workDir })),
    tool("bash", { command: "sh check", description: "Run the tests of the sessions" }),
    tool("write", { filePath: file, content: AFTER }),
    plan(3),
    text(ANSWER),
  ])
  model.on("tickets", [
    reply(plan(1), text("The same holds for tickets. Running the tests that use them:")),
    reply(
      tool("bash", {
        command: "sh check",
        description: "Run the tests of the tickets twenty times",
      }),
    ),
    reply(text("One test fails. Looking at it now"), waitFor(held), text(".")),
  ])
  model.on("release", [
    tool("question", {
      questions: [
        {
          question: "The fix changes who is logged out. Should it go into the next release?",
          header: "Release",
          options: [
            { label: "Yes, into 0.2.0", description: "With a line in the changelog" },
            { label: "Only on main", description: "It is tried for a week first" },
            { label: "Behind a setting", description: "Off until a person turns it on" },
          ],
        },
      ],
    }),
    text("It goes into 0.2.0."),
  ])
}

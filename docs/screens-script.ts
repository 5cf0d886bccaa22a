/** What the agent says and does in the pictures of the page: a small repository, edits, a failing test, a question. */
import { chmod, mkdir } from "node:fs/promises"
import { join } from "node:path"
import {
  httpError,
  reasoning,
  reply,
  type ScriptedModel,
  text,
  tool,
  usage,
} from "../test/kit/model.ts"
import type { Sandbox } from "../test/kit/runner.ts"

export const prompts = {
  renewal:
    "A request that the gateway refuses still renews the cookie. Find out why, fix it, and say so in ARCHITECTURE.md. A screenshot of the CI run is attached.",
  tickets: "Yes, do the same for tickets. Then start the preview so that I can try it.",
  queued: [
    "Also bump the version to 0.1.1 and add a line to CHANGELOG.md",
    "When everything is green, open a pull request against main",
  ],
  typed: "Use this log: the third refused request is the one that renewed the cookie.",
  callers: "Which callers issue tickets? Make a refused ticket stay valid.",
  cache: "Clear the cache of the gateway and measure a cold start.",
  reload: "Why is the terminal blank after a reload?",
  cookie: "How long does a session cookie last, and what renews it?",
  quota: "Prepare the release notes of 0.1.1.",
} as const

/** The titles of the conversations in the side. */
export const titles = {
  default: "Refused requests must not renew the cookie",
  callers: "Same fix for tickets",
  cache: "Cold start of the gateway",
  reload: "Terminal survives a reload",
  cookie: "How long a cookie lasts",
  quota: "Release 0.1.1",
} as const

const SESSIONS = `/** Sessions of people who have logged in. */
export const createSessions = (now: () => number, idleMs: number) => {
  const sessions = new Map<string, Session>()

  const isOver = ({ usedAt }: Session): boolean => now() - usedAt > idleMs

  return {
    add: (session: Session) => {
      sessions.set(session.id, session)
      return session
    },
    use: (id: string, path: string) => {
      const session = sessions.get(id)
      if (session === undefined || !isInside(path, session.scope)) return undefined
      const at = now()
      if (isOver(session)) {
        sessions.delete(id)
        return undefined
      }
      session.usedAt = at
      return session
    },
    size: () => sessions.size,
    sweep: () => sessions.forEach((session, id) => isOver(session) && sessions.delete(id)),
  }
}
`
const SESSION_EDITS = [
  [
    `    use: (id: string, path: string) => {
      const session = sessions.get(id)
      if (session === undefined || !isInside(path, session.scope)) return undefined
      const at = now()
`,
    `    find: (id: string, path: string) => {
      const session = sessions.get(id)
      if (session === undefined || !isInside(path, session.scope)) return undefined
`,
  ],
  [
    `      session.usedAt = at
      return session
    },
`,
    `      return session
    },
    /** Only a request that was let in counts as use. */
    renew: (session: Session) => {
      session.usedAt = now()
    },
`,
  ],
] as const
const APP = `/** Lets a request in or answers why not. */
export const answer = async (head: Head, target: Target, exchange: Exchange) => {
  const entry = await auth.person(head, target, exchange.peer)
  if (typeof entry === "string") return exchange.answer(refusal(head, entry))
  const isUpgrade = asksForWebSocket(head)
  const isRisky = isUpgrade || (entry.byCookie && !SAFE_METHODS.has(head.method))
  if (isRisky && !isOriginAllowed(head, options.allowedOrigins)) {
    return exchange.answer(refusal(head, "origin"))
  }
  return proxy(head, target, exchange, cookieOf(entry.session))
}
`
const APP_EDIT = [
  `    return exchange.answer(refusal(head, "origin"))
  }
`,
  `    exchange.note = "refused-origin"
    return exchange.answer(refusal(head, "origin"))
  }
  // From here on the request is let in, and counts.
  auth.sessions.renew(entry.session)
`,
] as const
const TICKETS = `/** A ticket opens one path, once. */
export const redeem = (tickets: Tickets, id: string, path: string) => {
  const ticket = tickets.take(id)
  return ticket !== undefined && isInside(path, ticket.path) ? ticket : undefined
}
`
const TICKETS_EDIT = [
  `  const ticket = tickets.take(id)
  return ticket !== undefined && isInside(path, ticket.path) ? ticket : undefined
`,
  `  const ticket = tickets.find(id)
  if (ticket === undefined || !isInside(path, ticket.path)) return undefined
  // A refused request leaves the ticket valid.
  return tickets.take(id)
`,
] as const

const FAILED = `bun test v1.4.4

test/sessions.test.ts:
✓ a cookie opens the editor [2.10ms]
✓ a cookie ends after the idle time [0.44ms]
  40 |   clock.advance(14 * 60_000)
  41 |   // Another page tries to use the cookie.
  42 |   await expect(get("/editor/", { cookie, origin })).resolves.toBe(403)
  43 |   clock.advance(2 * 60_000)
> 44 |   await expect(get("/editor/", { cookie })).resolves.toBe(401)
                                                           ^
\\033[31m  error: expected 401, received 200\\033[0m

 2 pass
 1 fail
Ran 3 tests across 1 file. [38.00ms]`
const TICKETS_PASS = `bun test v1.4.4

test/tickets.test.ts:
\\033[32m✓ a ticket opens one path, once [2.10ms]
✓ a ticket is invalid after 30 seconds [0.44ms]
✓ a refused ticket stays valid [3.02ms]\\033[0m

rerun 7 of 20`

const ANSWER = `The cookie was renewed **before** the origin check, so a request that the gateway refused still kept the session alive. A page elsewhere could hold a session open for twelve hours without ever being let in.

### What I changed

1. \`sessions.use\` is now two steps: \`find\` looks, \`renew\` counts. Nothing is renewed until the request has passed the origin check in \`app.ts\`.
2. A refused request is answered with \`403\` and leaves the clock alone. The test that failed covers this.

\`\`\`ts
const entry = await auth.person(head, target, peer)
if (typeof entry === "string") return exchange.answer(refusal(head, entry))
if (isRisky && !isOriginAllowed(head, allowed)) return exchange.answer(refusal(head, "origin"))
sessions.renew(entry.session) // the only place that counts as use
\`\`\`

| Request | Before | Now |
|---|---|---|
| own page, GET | renewed | renewed |
| other origin, POST | **renewed**, 403 | 403 |
| other origin, WebSocket | **renewed**, 403 | 403 |

Two things I left alone: tickets are still redeemed before the check (they are valid once anyway), and \`held\` sockets keep their session as before. If you want tickets to behave the same way, it is three lines in \`src/tickets.ts:3\`.`

const PREVIEW = `<!doctype html><html lang="en"><title>Login links</title>
<style>body{font:14px/1.5 Inter,system-ui,sans-serif;margin:40px;color:#1b2225;background:#fff}h1{font-size:20px}
p{color:#4d565a;max-width:300px}dl{display:grid;grid-template-columns:1fr auto;max-width:300px;row-gap:16px}
dd{margin:0;color:#5c6366}.open{color:#1c6f45}button{font:inherit;padding:8px 14px;border:0;border-radius:8px;background:#1b2225;color:#fff}</style>
<h1>Login links</h1><p>Each link opens one part of the sandbox, once, within 30 seconds.</p>
<dl><dt>/vscode/</dt><dd>used</dd><dt>/t/web/</dt><dd class="open">open, 24 s</dd></dl><button>Make a link</button></html>`

/** Serves the page that the pictures show in the preview. */
export const servePreview = () =>
  Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: () => new Response(PREVIEW, { headers: { "content-type": "text/html" } }),
  })

/** A repository on a branch of its own, and a program named `bun` that prints what the pictures show. */
export const furnish = async ({ workDir, home }: Place): Promise<void> => {
  await mkdir(join(workDir, "src"), { recursive: true })
  await mkdir(join(home, "bin"), { recursive: true })
  await Bun.write(join(workDir, "src/sessions.ts"), SESSIONS)
  await Bun.write(join(workDir, "src/app.ts"), APP)
  await Bun.write(join(workDir, "src/tickets.ts"), TICKETS)
  await Bun.write(
    join(workDir, "ARCHITECTURE.md"),
    "# Architecture\n\nA cookie lasts 15 minutes.\n",
  )
  const program = join(home, "bin/bun")
  await Bun.write(
    program,
    `#!/bin/sh
case "$*" in
  *tickets*) printf '${TICKETS_PASS}\\n'; while [ ! -e ${home}/released ]; do sleep 0.2; done ;;
  *sessions*) sleep 2; printf '${FAILED.replaceAll("%", "%%")}\\n'; exit 1 ;;
  *) sleep 3; printf '\\n 214 pass\\n 0 fail\\nRan 214 tests across 31 files. [2.91s]\\n' ;;
esac
`,
  )
  await chmod(program, 0o755)
  const git = (...args: readonly string[]) => {
    const { exitCode, stderr } = Bun.spawnSync(["git", ...args], { cwd: workDir })
    if (exitCode !== 0) throw new Error(`git ${args.join(" ")}: ${stderr.toString()}`)
  }
  git("init", "-q", "-b", "main")
  git("add", "-A")
  git("-c", "user.name=Ada", "-c", "user.email=ada@example.com", "commit", "-q", "-m", "first")
  git("update-ref", "refs/remotes/origin/main", "HEAD")
  git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main")
  git("switch", "-q", "-c", "fix/renewal")
}

export interface Place extends Pick<Sandbox, "workDir"> {
  /** Outside of the workspace: the program and the mark that lets it end. */
  readonly home: string
}

export const script = (
  model: ScriptedModel,
  { workDir }: Pick<Place, "workDir">,
  previewPort: number,
): void => {
  const path = (name: string) => join(workDir, name)
  const on = (prompt: string, replies: Parameters<ScriptedModel["on"]>[1]) =>
    model.on(
      ({ messages }) =>
        JSON.stringify(messages.findLast(({ role }) => role === "user")).includes(prompt),
      replies,
    )
  const edit = (name: string, [oldString, newString]: readonly [string, string]) =>
    tool("edit", { filePath: path(name), oldString, newString })
  const plan = (steps: readonly string[], done: number) =>
    tool("todowrite", {
      todos: steps.map((content, index) => ({
        content,
        status: index < done ? "completed" : index === done ? "in_progress" : "pending",
        priority: "medium",
      })),
    })
  const think = (subject: string) =>
    reasoning(`**${subject}**\n\nThe cookie is renewed where the session is looked up.`, {
      chunks: 6,
      delayMs: 500,
    })
  const steps = [
    "Find where the cookie is renewed",
    "Renew it after the checks",
    "Run the tests",
    "Say so in ARCHITECTURE.md",
  ]
  const [firstEdit, secondEdit] = SESSION_EDITS
  on(prompts.renewal, [
    reply(think("Following the cookie"), plan(steps, 0)),
    tool("bash", {
      command: "bun test test/sessions.test.ts",
      description: "Run the tests of sessions",
    }),
    reply(
      tool("read", { filePath: path("src/sessions.ts") }),
      tool("read", { filePath: path("src/app.ts") }),
      tool("grep", { pattern: "usedAt", path: workDir }),
    ),
    tool("task", {
      description: "Who else relies on renewal",
      prompt: "List the callers that rely on renewal at look-up.",
      subagent_type: "explore",
    }),
    edit("src/sessions.ts", firstEdit),
    edit("src/sessions.ts", secondEdit),
    edit("src/app.ts", APP_EDIT),
    tool("bash", { command: "bun test", description: "Run all tests" }),
    edit("ARCHITECTURE.md", [
      "A cookie lasts 15 minutes.\n",
      "A cookie lasts 15 minutes. Only a request that was let in renews it.\n",
    ]),
    plan(steps, steps.length),
    reply(text(ANSWER), usage({ input: 44_100, output: 2_600, reasoning: 1_500 })),
  ])
  on("List the callers that rely on renewal", [
    tool("grep", { pattern: "usedAt", path: workDir }),
    tool("read", { filePath: path("src/tickets.ts") }),
    text("Only `held` sockets, which renew themselves when they close."),
  ])
  const ticketSteps = [
    "Redeem a ticket after the origin check",
    "Test: a refused ticket stays valid",
    "Start the preview",
  ]
  on(prompts.tickets, [
    reply(think("Tickets have the same order"), plan(ticketSteps, 0)),
    edit("src/tickets.ts", TICKETS_EDIT),
    reply(
      plan(ticketSteps, 1),
      text("A ticket is now looked up first and redeemed only when the request is let in."),
      tool("register_tunnel", { name: "web", port: previewPort }),
    ),
    reply(
      text("Running the tests that hold tickets:"),
      tool("bash", {
        command: "bun test test/tickets.test.ts --rerun-each 20",
        description: "Running the ticket tests twenty times",
      }),
    ),
    text("All twenty runs pass."),
  ])
  const [version, pullRequest] = prompts.queued
  on(version, [text("The version is 0.1.1, and CHANGELOG.md has a line about refused requests.")])
  on(pullRequest, [text("All tests pass. The pull request is ready for review.")])
  on(prompts.callers, [
    reply(think("Reading the callers"), plan(ticketSteps, 1)),
    reply(
      text(
        "A ticket is now looked up first and redeemed only when the request is let in. One thing to decide:",
      ),
      tool("question", {
        questions: [
          {
            question:
              "Tickets are issued by three callers. Should a refused request keep the ticket valid for all of them, or only for links that people open?",
            header: "Tickets",
            options: [
              { label: "For all three callers", description: "The rule is the same everywhere" },
              {
                label: "Only for links that people open",
                description: "Tools ask for a new ticket anyway",
              },
              { label: "Leave tickets as they are", description: "" },
            ],
          },
        ],
      }),
    ),
    text("Then for all three."),
  ])
  on(prompts.cache, [
    reply(
      text("The cold start is measured with an empty cache, which is outside of the workspace:"),
      tool("bash", {
        command: "rm -rf /var/cache/sandpiper/*",
        description: "Empty the cache of the gateway",
      }),
    ),
    text("Measured."),
  ])
  on(prompts.reload, [
    text("The scrollback is sent again after a full reset. It survives a reload now."),
  ])
  on(prompts.cookie, [
    text(
      "A session cookie lasts 15 minutes. Each request that is let in renews it, up to twelve hours.",
    ),
  ])
  on(prompts.quota, [
    httpError(400, {
      message: "The key has no credit left (insufficient_quota).",
      type: "insufficient_quota",
    }),
  ])
}

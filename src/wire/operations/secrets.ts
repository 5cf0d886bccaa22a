/** Secrets, which the sandbox uses for the agent without ever showing it their values. */
import { z } from "zod"
import { sandboxOperation } from "./define.ts"
import { entity, ok, text, wholeNumber } from "./fields.ts"
import { listed, ran } from "./render.ts"

const listInput = z.object({
  vault_id: text("Only secrets of this vault").optional(),
})

const listOutput = z.object({ secrets: z.array(entity) })

const reference = text("Reference of the secret, as the list gives it")

const timeout = wholeNumber("Milliseconds it may take; an hour at most", {
  min: 1,
  max: 3_600_000,
}).optional()

export const operations = [
  sandboxOperation({
    name: "secret-list",
    method: "GET",
    path: "/api/secrets/list",
    doc: "List the references of the secrets; never their values.",
    tools: [
      {
        name: "secret_list",
        description:
          "List the references of the secrets that you may use. Values are never shown: hand a reference to secret_run, secret_inject or secret_fill.",
        render: ({ secrets }) => listed(secrets, "secret", "secrets"),
      },
    ],
    input: listInput,
    output: listOutput,
    part: "secrets",
  }),
  sandboxOperation({
    name: "secret-list-by-post",
    method: "POST",
    path: "/api/secrets/list",
    doc: "List the references of the secrets, for callers that send a body.",
    tools: { none: "secret_list calls it by GET" },
    input: listInput,
    output: listOutput,
    part: "secrets",
  }),
  sandboxOperation({
    name: "secret-inject",
    method: "POST",
    path: "/api/secrets/inject",
    doc: "Write a file from a template, with each reference in it replaced by its value.",
    tools: [
      {
        name: "secret_inject",
        description:
          "Write a file from a template in which references to secrets are replaced by their values, for example an .env file. The file is readable by you: do not print it, do not commit it.",
        render: ({ count }) => `Written, with ${count} secrets. Do not print or commit the file.`,
      },
    ],
    input: z.object({
      templatePath: text("The template"),
      outputPath: text("The file to write"),
    }),
    output: z.object({ ok: z.boolean(), count: z.int() }),
    part: "secrets",
  }),
  sandboxOperation({
    name: "secret-run",
    method: "POST",
    path: "/api/secrets/run",
    doc: "Run a command that has secrets in its environment; its output is redacted.",
    tools: [
      {
        name: "secret_run",
        description:
          "Run a shell command with secrets in its environment. `env` names the variables and the reference behind each; use them as $NAME in the command. Values are taken out of the output.",
        render: ran,
      },
    ],
    input: z.object({
      command: text("The command"),
      env: z
        .record(
          z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/, "must be the name of a variable"),
          reference,
          { error: "must be an object of variable names and references" },
        )
        .describe("The environment: the reference behind each name"),
      cwd: text("Folder to run it in").optional(),
      timeout,
    }),
    output: z.object({ exitCode: z.int(), stdout: z.string(), stderr: z.string() }),
    part: "secrets",
  }),
  sandboxOperation({
    name: "secret-fill",
    method: "POST",
    path: "/api/secrets/fill",
    doc: "Type a secret into a field of the page in the browser.",
    tools: [
      {
        name: "secret_fill",
        description:
          "Type a secret into a field of the page that the browser shows, without seeing it. Take the selector from `agent-browser snapshot -i`.",
        render: () => "The field is filled.",
      },
    ],
    input: z.object({
      selector: text("The field, as a selector"),
      secret_ref: reference,
      timeout,
    }),
    output: ok,
    part: "secrets",
  }),
] as const

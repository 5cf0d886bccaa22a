/** Secrets: the agent uses them by reference and does not see their values. */
import { z } from "zod"
import { sandboxOperation } from "./define.ts"
import { entity, ok, text, wholeNumber } from "./fields.ts"
import { renderList, renderCommandResult } from "./render.ts"

const listInput = z.object({
  vault_id: text("Only secrets of this vault").optional(),
})

const listOutput = z.object({ secrets: z.array(entity) })

const reference = text("Reference from secret_list")

const timeout = wholeNumber("Timeout in milliseconds", {
  min: 1,
  max: 3_600_000,
}).optional()

export const operations = [
  sandboxOperation({
    name: "secret-list",
    method: "GET",
    path: "/api/secrets/list",
    doc: "List the references of the secrets, without values.",
    tools: [
      {
        name: "secret_list",
        description:
          "List the references of available secrets, without values. Use a reference with secret_run, secret_inject or secret_fill.",
        render: ({ secrets }) => renderList(secrets, "secret", "secrets"),
      },
    ],
    input: listInput,
    output: listOutput,
  }),
  sandboxOperation({
    name: "secret-list-by-post",
    method: "POST",
    path: "/api/secrets/list",
    doc: "List the references of the secrets, for callers that must send a body.",
    tools: { none: "secret_list uses the GET route" },
    input: listInput,
    output: listOutput,
  }),
  sandboxOperation({
    name: "secret-inject",
    method: "POST",
    path: "/api/secrets/inject",
    doc: "Write a file from a template and replace each secret reference by its value.",
    tools: [
      {
        name: "secret_inject",
        description:
          "Write a file, such as .env, from a template and replace each secret reference by its value. Do not print or commit the file.",
        render: ({ count }) => `Written with ${count} secrets. Do not print or commit the file.`,
      },
    ],
    input: z.object({
      templatePath: text("Path of the template"),
      outputPath: text("Path of the file to write"),
    }),
    output: z.object({ ok: z.boolean(), count: z.int() }),
  }),
  sandboxOperation({
    name: "secret-run",
    method: "POST",
    path: "/api/secrets/run",
    doc: "Run a command with secrets in its environment; values in its output are redacted.",
    tools: [
      {
        name: "secret_run",
        description:
          "Run a shell command with secrets as environment variables. Use them as $NAME in the command. Values in the output are redacted.",
        render: renderCommandResult,
      },
    ],
    input: z.object({
      command: text("Shell command"),
      env: z
        .record(
          z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/, "must be the name of a variable"),
          reference,
          { error: "must be an object of variable names and references" },
        )
        .describe("Variable name to secret reference"),
      cwd: text("Working directory").optional(),
      timeout,
    }),
    output: z.object({ exitCode: z.int(), stdout: z.string(), stderr: z.string() }),
  }),
  sandboxOperation({
    name: "secret-fill",
    method: "POST",
    path: "/api/secrets/fill",
    doc: "Type a secret into a field of the current browser page.",
    tools: [
      {
        name: "secret_fill",
        description:
          "Type a secret into a field of the current browser page. Take the selector from `agent-browser snapshot -i`.",
        render: () => "The field is filled.",
      },
    ],
    input: z.object({
      selector: text("Selector or ref of the field"),
      secret_ref: reference,
      timeout,
    }),
    output: ok,
  }),
] as const

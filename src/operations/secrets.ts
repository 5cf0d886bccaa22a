/** Secrets, which the sandbox uses for the agent without ever showing it their values. */
import { z } from "zod"
import { sandboxOperation } from "./define.ts"
import { entity, ok, text, wholeNumber } from "./fields.ts"

const listInput = z.object({
  vault_id: text("Only secrets of this vault").optional(),
})

const listOutput = z.object({ secrets: z.array(entity) })

const reference = text("Reference of the secret, as the list gives it")

const timeout = wholeNumber("Milliseconds it may take", { min: 1 }).optional()

export const operations = [
  sandboxOperation({
    name: "secret-list",
    method: "GET",
    path: "/api/secrets/list",
    doc: "List the references of the secrets; never their values.",
    input: listInput,
    output: listOutput,
    part: "secrets",
  }),
  sandboxOperation({
    name: "secret-list-by-post",
    method: "POST",
    path: "/api/secrets/list",
    doc: "List the references of the secrets, for callers that send a body.",
    input: listInput,
    output: listOutput,
    part: "secrets",
  }),
  sandboxOperation({
    name: "secret-inject",
    method: "POST",
    path: "/api/secrets/inject",
    doc: "Write a file from a template, with each reference in it replaced by its value.",
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
    input: z.object({
      selector: text("The field, as a selector"),
      secret_ref: reference,
      timeout,
    }),
    output: ok,
    part: "secrets",
  }),
] as const

/** Env files: files of variables that the sandbox writes from secrets and removes before a snapshot. */
import { z } from "zod"
import { sandboxOperation } from "./define.ts"
import { noInput, text } from "./fields.ts"

const variableName = z
  .string()
  .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, { error: "must be the name of a variable" })

/** One file: a secret reference is replaced by its value, any other text is written as it is. */
const envFile = z.object({
  path: text("Path in the workspace, such as .env.local"),
  variables: z
    .record(variableName, z.string(), {
      error: "must be an object of variable names and references",
    })
    .describe("Variable name to secret reference, or to a text that is not secret"),
})

export const envFiles = z
  .array(envFile, { error: "must be a list of files" })
  .min(1, { error: "must name at least one file" })
  .max(32, { error: "must name at most 32 files" })
  .describe("The env files")

const byCommand = { none: "the agent uses the command `sandpiper env`" }

export const operations = [
  sandboxOperation({
    name: "apply-env-files",
    method: "POST",
    path: "/api/env/apply",
    doc: "Write env files. All are checked first: if one is invalid, none is written. They are excluded from git and removed before a snapshot.",
    tools: byCommand,
    input: z.object({ files: envFiles }),
    output: z.object({ written: z.array(z.string()) }),
  }),
  sandboxOperation({
    name: "scrub-env-files",
    method: "POST",
    path: "/api/env/scrub",
    doc: "Remove the env files that were written, and forget them.",
    tools: byCommand,
    input: noInput,
    output: z.object({ removed: z.array(z.string()) }),
  }),
] as const

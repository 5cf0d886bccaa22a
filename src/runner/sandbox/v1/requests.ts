/** The bodies of `/v1` requests, in the published shapes of sandbox-agent. Optional fields may be null. */
import { z } from "zod"

const optional = <Schema extends z.ZodType>(schema: Schema) =>
  schema.nullish().transform((value) => value ?? undefined)

const text = z.string({ error: "must be text" })
const noNul = text.refine((value) => !value.includes("\0"), {
  error: "must not contain a NUL character",
})
const program = {
  command: noNul.min(1, { error: "must not be empty" }),
  args: z.array(noNul).default([]),
  cwd: optional(text),
  env: z
    .record(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/), noNul)
    .nullish()
    .transform((value) => value ?? {}),
}

export const moveBody = z.object({ from: text, to: text, overwrite: optional(z.boolean()) })

export const editBody = z.object({
  path: text,
  oldText: text,
  newText: text,
  replaceAll: optional(z.boolean()),
})

export const runBody = z.object({
  ...program,
  timeoutMs: optional(z.int().min(1)),
  maxOutputBytes: optional(z.int().min(0)),
})
export type RunRequest = z.output<typeof runBody>

export const startBody = z.object({
  ...program,
  interactive: optional(z.boolean()),
  tty: optional(z.boolean()),
})
export type StartRequest = z.output<typeof startBody>

export const inputBody = z.object({
  data: text,
  encoding: optional(z.enum(["base64", "utf8", "utf-8"])),
})

const signals = ["SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGKILL", "SIGUSR1", "SIGUSR2"] as const
export const signalBody = z.object({ signal: z.enum(signals) })
export type SignalName = z.output<typeof signalBody>["signal"]

export const resizeBody = z.object({
  cols: z.int().min(1).max(1000),
  rows: z.int().min(1).max(1000),
})

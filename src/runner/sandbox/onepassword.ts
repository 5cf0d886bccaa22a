/** Secrets from 1Password, by its `op` program and a service account. */
import { type CommandResult, CommandNotStarted, runCommand } from "../../lib/run-command.ts"
import { z } from "zod"
import { SecretsError } from "./secrets-error.ts"
import type { SecretReference, SecretsProvider } from "./secrets.ts"

export interface OnePasswordOptions {
  readonly token: () => string
  /** The PATH to find `op` in. */
  readonly path: string
  /** Where `op` keeps its own files. */
  readonly home: string
  readonly timeoutMs?: number
}

/** A list of items may be long; the default of a command would cut it. */
const MAX_OUTPUT = 64 * 1024 * 1024
const TIMEOUT_MS = 20_000
/** Every call of `op` uses the network; more parallel calls gain nothing and exceed rate limits. */
const PARALLEL_CALLS = 4

const itemList = z.array(z.object({ id: z.string() }))

/** The output of `op` also contains values; the schema drops every field that is not named here. */
const item = z.object({
  title: z.string(),
  vault: z.object({ name: z.string().optional(), id: z.string() }),
  fields: z
    .array(z.object({ label: z.string().optional(), reference: z.string().optional() }))
    .optional(),
})

export const createOnePassword = ({
  token,
  path,
  home,
  timeoutMs = TIMEOUT_MS,
}: OnePasswordOptions): SecretsProvider => {
  const op = async (...args: readonly string[]): Promise<string> => {
    const result = await runCommand("op", args, {
      env: { PATH: path, OP_SERVICE_ACCOUNT_TOKEN: token(), HOME: home },
      timeoutMs,
      maxOutput: MAX_OUTPUT,
    }).catch((cause: unknown) => {
      if (!(cause instanceof CommandNotStarted)) throw cause
      throw new SecretsError(
        "unavailable",
        "1Password's program `op` is not installed in this sandbox",
        { cause },
      )
    })
    if (result.exitCode === 0) return result.stdout
    throw errorOf(result, timeoutMs)
  }
  return {
    references: /op:\/\/[^\s"'`{}<>,;]+/g,
    isReference: (text) => /^op:\/\/[^/\r\n]+(?:\/[^/\r\n]+){2,3}$/.test(text),
    list: async (vault) => {
      const listed = await op(
        "item",
        "list",
        "--format",
        "json",
        ...(vault ? ["--vault", vault] : []),
      )
      const items = itemList.parse(JSON.parse(listed || "[]"))
      const references = await inBatches(items, async ({ id }) => {
        const text = await op(
          "item",
          "get",
          id,
          "--format",
          "json",
          ...(vault ? ["--vault", vault] : []),
        )
        return referencesOf(item.parse(JSON.parse(text)))
      })
      return references.flat()
    },
    resolve: async (references) =>
      new Map(
        await inBatches(references, async (reference) => {
          const value = await op("read", "--no-newline", reference).catch((cause: unknown) => {
            if (cause instanceof SecretsError && cause.reason !== "not-found") throw cause
            throw new SecretsError("not-found", `there is no secret ${reference}`, { cause })
          })
          return [reference, value] as const
        }),
      ),
  }
}

const referencesOf = ({
  title,
  vault,
  fields = [],
}: z.output<typeof item>): readonly SecretReference[] =>
  fields.flatMap(({ label, reference }) =>
    reference === undefined
      ? []
      : [{ reference, vault: vault.name ?? vault.id, item: title, ...(label && { field: label }) }],
  )

/** Contains neither the output of `op` nor its arguments, because both may hold a secret value. */
const errorOf = ({ timedOut, stderr }: CommandResult, timeoutMs: number): SecretsError => {
  if (timedOut) {
    return new SecretsError("timeout", `1Password did not respond within ${timeoutMs / 1000} s`)
  }
  return /unauthorized|invalid token|service account/i.test(stderr)
    ? new SecretsError(
        "unavailable",
        "1Password refuses this sandbox's service account: check OP_SERVICE_ACCOUNT_TOKEN",
      )
    : new SecretsError("not-found", "1Password has no such item")
}

const inBatches = async <Input, Output>(
  inputs: readonly Input[],
  work: (input: Input) => Promise<Output>,
): Promise<readonly Output[]> => {
  const outputs: Output[] = []
  for (let from = 0; from < inputs.length; from += PARALLEL_CALLS) {
    outputs.push(...(await Promise.all(inputs.slice(from, from + PARALLEL_CALLS).map(work))))
  }
  return outputs
}

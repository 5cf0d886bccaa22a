/** The operations on secrets, carried out in the sandbox, with their failures as statuses. */
import { z } from "zod"
import type { Secrets } from "./secrets.ts"
import { SecretsError } from "./secrets-error.ts"
import { ApiError, type ApiPorts } from "../gateway/api.ts"

const statuses = {
  "bad-input": [400, "bad-input"],
  "not-found": [404, "not-found"],
  unavailable: [501, "unavailable"],
  timeout: [504, "timeout"],
} as const satisfies Record<SecretsError["reason"], readonly [number, string]>

export const secretOperations = (secrets: Secrets): ApiPorts["local"] => {
  const list = told(z.object({ vault_id: z.string().optional() }), async ({ vault_id }) => ({
    secrets: await secrets.list(vault_id),
  }))
  return {
    "secret-list": list,
    "secret-list-by-post": list,
    "secret-inject": told(
      z.object({ templatePath: z.string(), outputPath: z.string() }),
      async ({ templatePath, outputPath }) => ({
        ok: true,
        ...(await secrets.inject(templatePath, outputPath)),
      }),
    ),
    "secret-run": told(
      z.object({
        command: z.string(),
        env: z.record(z.string(), z.string()),
        cwd: z.string().optional(),
        timeout: z.number().optional(),
      }),
      async ({ timeout: timeoutMs, ...request }) => secrets.run({ ...request, timeoutMs }),
    ),
    "secret-fill": told(
      z.object({ selector: z.string(), secret_ref: z.string(), timeout: z.number().optional() }),
      async ({ selector, secret_ref, timeout }) => {
        await secrets.fill(selector, secret_ref, timeout)
        return { ok: true }
      },
    ),
  }
}

/** The API has checked the input against the table already; here it only gets its types back. */
const told =
  <Schema extends z.ZodType>(schema: Schema, run: (input: z.output<Schema>) => Promise<unknown>) =>
  async (input: Record<string, unknown>): Promise<unknown> => {
    try {
      return await run(schema.parse(input))
    } catch (error) {
      if (!(error instanceof SecretsError)) throw error
      const [status, code] = statuses[error.reason]
      throw new ApiError(status, code, error.message)
    }
  }

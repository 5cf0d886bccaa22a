/** The operations on secrets, with their errors as HTTP statuses. */
import type { SandboxHandlers } from "../../wire/operations/index.ts"
import { ApiError } from "../gateway/api-error.ts"
import { SecretsError } from "./secrets-error.ts"
import type { Secrets } from "./secrets.ts"

const statuses = {
  "bad-input": [400, "bad-input"],
  "not-found": [404, "not-found"],
  unavailable: [501, "unavailable"],
  timeout: [504, "timeout"],
} as const satisfies Record<SecretsError["reason"], readonly [number, string]>

/** Runs it, and throws a SecretsError as the ApiError with its status. */
export const asApiErrors = async <Result>(run: () => Promise<Result>): Promise<Result> => {
  try {
    return await run()
  } catch (error) {
    if (!(error instanceof SecretsError)) throw error
    const [status, code] = statuses[error.reason]
    throw new ApiError(status, code, error.message)
  }
}

/** Without a source of secrets every operation responds 501. */
export const secretOperations = (secrets: Secrets | undefined) => {
  const use = async <Result>(run: (secrets: Secrets) => Promise<Result>): Promise<Result> => {
    if (secrets === undefined) {
      throw new ApiError(501, "not-implemented", "this sandbox has no secrets")
    }
    return asApiErrors(() => run(secrets))
  }
  const list: SandboxHandlers["secret-list"] = ({ vault_id }) =>
    use(async (source) => ({
      secrets: (await source.list(vault_id)).map((reference) => ({ ...reference })),
    }))
  return {
    "secret-list": list,
    "secret-list-by-post": list,
    "secret-inject": ({ templatePath, outputPath }) =>
      use(async (source) => ({ ok: true, ...(await source.inject(templatePath, outputPath)) })),
    "secret-run": ({ timeout: timeoutMs, ...request }) =>
      use((source) => source.run({ ...request, timeoutMs })),
    "secret-fill": ({ selector, secret_ref, timeout }) =>
      use(async (source) => {
        await source.fill(selector, secret_ref, timeout)
        return { ok: true }
      }),
  } satisfies Partial<SandboxHandlers>
}

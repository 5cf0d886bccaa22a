/**
 * Modal's SDK as this provider uses it: loaded when it is needed, with a deadline for each call, without retries of its
 * own, and without output. The fleet decides what is repeated.
 */
import type { ModalClient, ModalClientParams } from "modal"
import type { Clock } from "../../lib/clock.ts"
import { describeError, type Log } from "../../lib/log.ts"
import { redactError } from "../core/redact.ts"
import type { ProviderResult } from "./contract.ts"

export interface ModalClientOptions {
  readonly tokenId: string
  readonly tokenSecret: string
  readonly environment: string | undefined
  readonly clock: Clock
  readonly log: Log
}

const CALL_MS = 60_000

type Middleware = NonNullable<ModalClientParams["grpcMiddleware"]>[number]

/** It is the outermost one, so the SDK's retry sees these options. */
const withDeadline = (clock: Clock): Middleware =>
  async function* deadlineMiddleware(call, options) {
    // A build of an image is a stream, and takes as long as it takes.
    if (call.requestStream || call.responseStream) return yield* call.next(call.request, options)
    const deadline = new AbortController()
    const cancel = clock.after(CALL_MS, () => deadline.abort())
    const signal = options.signal
      ? AbortSignal.any([options.signal, deadline.signal])
      : deadline.signal
    try {
      const once = { ...options, signal, retries: 0 }
      return yield* call.next(call.request, once)
    } finally {
      cancel()
    }
  }

export const openModal = async (options: ModalClientOptions): Promise<ModalClient> => {
  const { ModalClient: Client } = await import("modal")
  const { log, tokenId, tokenSecret } = options
  const say = (message: string): void =>
    log.debug("modal.sdk", { message: redactError(message, [tokenId, tokenSecret]) })
  return new Client({
    tokenId,
    tokenSecret,
    ...(options.environment !== undefined && { environment: options.environment }),
    grpcMiddleware: [withDeadline(options.clock)],
    logger: { debug: say, info: say, warn: say, error: say },
  })
}

/** Codes of gRPC. */
const NOT_FOUND = 5
/** The request, the credentials or the account are wrong: a repeated call does not help. */
const REFUSED: ReadonlySet<number> = new Set([3, 7, 12, 16])

const codeOf = (error: unknown): number | undefined =>
  error instanceof Error && "code" in error && typeof error.code === "number"
    ? error.code
    : undefined

export const isModalMissing = (error: unknown): boolean =>
  codeOf(error) === NOT_FOUND || (error instanceof Error && error.name === "NotFoundError")

/** A finished sandbox is not found, or conflicts with what was asked. */
export const mayBeFinished = (error: unknown): boolean =>
  isModalMissing(error) || (error instanceof Error && error.name === "ConflictError")

/** What an exception of the SDK means. Everything that is not Modal's clear word is in doubt. */
export const resultOfError = (
  error: unknown,
  secrets: readonly string[],
): ProviderResult<never> & { readonly is: "refused" | "unknown" } => {
  const why = redactError(describeError(error), secrets)
  const isRefusal =
    REFUSED.has(codeOf(error) ?? 0) || (error instanceof Error && error.name === "InvalidError")
  return { is: isRefusal ? "refused" : "unknown", why }
}

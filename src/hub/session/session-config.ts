/**
 * The agent's config of a session. It holds provider keys: the row is encrypted by the host (`ports.seal`), the plain text
 * exists in memory only.
 */
import type { Reply } from "../../wire/clients/verbs.ts"
import { publishModel } from "./prompt-models.ts"
import { type ConfigPatch, patchConfig } from "./patch-config.ts"
import { publicConfig } from "./public-config.ts"
import { readConfig } from "./rows.ts"
import type { SessionContext } from "./session-context.ts"

/** Characters of the config; a character may take three bytes, and base64 a third more: the row stays below 2 MB. */
const MAX_CHARACTERS = 500_000
const MAX_SEALED = 1_900_000

export type Configure = (
  change: object,
  options?: {
    /** The reply has a request id, and the runner's result of the change carries it. */
    readonly withResult?: boolean
    /** Applied after `change`. */
    readonly patch?: ConfigPatch | undefined
  },
) => Reply

/** Merges `change` into the config: absent fields keep their value. A connected runner gets the fields that have changed. */
export const createConfigure = (context: SessionContext): Configure => {
  const { ports, values, runnerConnection } = context

  return (given, { withResult = false, patch } = {}) => {
    const patched = patch && patchConfig({ ...values.config(), ...given }, patch)
    if (patched?.ok === false) return refuse(patched.problem)
    const change = { ...given, ...patched?.change }
    const text = JSON.stringify({ ...values.config(), ...change })
    if (text.length > MAX_CHARACTERS) return tooLong
    const sealed = ports.seal(text)
    if (sealed.length > MAX_SEALED) return tooLong
    const requestId = withResult ? ports.newId() : undefined
    const isForRunner = requestId !== undefined || Object.keys(change).length > 0
    context.commit(() => {
      values.setPrivate("config", sealed)
      values.setPublic("config", publicConfig(readConfig(text)))
      if (isForRunner && runnerConnection.state().connection !== null)
        context.sendToRunner({
          type: "opencode-config",
          config: change,
          ...(requestId !== undefined && { requestId }),
        })
    })
    values.setConfig(text)
    context.commit(() => publishModel(values, undefined))
    return { ok: true, ...(requestId !== undefined && { requestId }) }
  }
}

const refuse = (message: string): Reply => ({ ok: false, error: { code: "bad-request", message } })

const tooLong = refuse(`config: at most ${MAX_CHARACTERS} characters can be stored`)

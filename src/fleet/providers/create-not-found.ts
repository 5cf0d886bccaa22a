/** A create over HTTP that is answered "not found": the words may be about anything that the create names. */
import type { ImageChoice, ProviderResult } from "./contract.ts"
import type { AnswerRules, HttpApi, HttpCall } from "./http.ts"

export interface CreateByHttp<T> {
  readonly api: HttpApi
  readonly call: HttpCall
  readonly rules: AnswerRules<T>
  readonly image: ImageChoice
  /** Why a create from an image that does not exist is refused. */
  readonly noImage: string
  /** Reads the snapshot or base snapshot that the sandbox is made from. */
  readonly lookAtSnapshot: () => Promise<ProviderResult<unknown>>
}

/** `missing` makes the fleet forget the snapshot, so only a look at the snapshot itself says it. */
export const createByHttp = async <T>(options: CreateByHttp<T>): Promise<ProviderResult<T>> => {
  const { api, call, rules } = options
  const answer = await api.send(call)
  const made = api.resultOf(call, answer, rules)
  if (made.is !== "missing") return made
  if (options.image.kind === "image") return { is: "refused", why: options.noImage }
  const found = await options.lookAtSnapshot()
  return found.is === "ok"
    ? api.resultOf(call, answer, { ...rules, isMissing: () => false })
    : found
}

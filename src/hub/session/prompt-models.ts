/**
 * The models of a prompt: the one it starts with, and those that it goes on with when its model fails. The runner changes
 * the model before any tool has run.
 */
import { z } from "zod"
import { providerModels } from "../../wire/frames/shapes.ts"
import type { NamedValues } from "./named-values.ts"
import type { Prompt } from "./queue.ts"

const modelState = z.object({ default: z.string() })
const knownModels = z.array(providerModels)

/** Private values; an empty text is none. */
const OF_SESSION = "session-model"
const OF_OWNER = "owner-model"
const OF_RUNNER = "runner-model"

/** The state `model` of clients: the model of prompts that name none, and the fallbacks of the config. */
export const publishModel = (values: NamedValues, ofRunner: string | undefined): void => {
  const known = ofRunner ?? runnerModel(values)
  if (known !== undefined) values.setPrivate(OF_RUNNER, known)
  const fallbacks = values.config().modelFallbacks ?? []
  const current = chosenModel(values) ?? known
  if (current === undefined && fallbacks.length === 0) return values.removePublic("model")
  values.setPublic("model", {
    ...(current !== undefined && { default: current }),
    ...(fallbacks.length > 0 && { fallbacks }),
  })
}

/** The model of this session; it comes before the owner's. */
export const setSessionModel = (values: NamedValues, model: string): void => {
  values.setPrivate(OF_SESSION, model)
  publishModel(values, undefined)
}

export const hasOtherModel = (values: NamedValues, ofOwner: string | undefined): boolean =>
  (values.getPrivate(OF_OWNER) ?? "") !== (ofOwner ?? "")

/** The model of the owner's prompts that name none. */
export const setOwnerModel = (values: NamedValues, model: string | undefined): void => {
  // The runner's own is in the public state only, if an earlier version of the hub stored it.
  const ofRunner = runnerModel(values)
  if (ofRunner !== undefined) values.setPrivate(OF_RUNNER, ofRunner)
  values.setPrivate(OF_OWNER, model ?? "")
  publishModel(values, undefined)
}

/** A prompt that names its own model or preferences keeps them. */
export const withModels = (values: NamedValues, prompt: Prompt): Prompt => {
  const { modelPreferences } = prompt
  const model = prompt.model ?? (modelPreferences === undefined ? chosenModel(values) : undefined)
  const named = model === undefined ? prompt : { ...prompt, model }
  const fallbacks = values.config().modelFallbacks ?? []
  if (modelPreferences !== undefined || fallbacks.length === 0) return named
  const first = model ?? runnerModel(values)
  // Without a known first model the fallback would become the first one.
  if (first === undefined) return prompt
  return {
    ...prompt,
    model: first,
    modelPreferences: fallbacks.filter((name) => name !== first),
  }
}

const runnerModel = (values: NamedValues): string | undefined =>
  values.getPrivate(OF_RUNNER) ?? modelState.safeParse(values.getPublic("model")).data?.default

/** The model that a person has chosen for the session or for all of them. A runner that lacks the owner's uses its own. */
const chosenModel = (values: NamedValues): string | undefined => {
  const ofSession = values.getPrivate(OF_SESSION) ?? ""
  if (ofSession !== "") return ofSession
  const ofOwner = values.getPrivate(OF_OWNER) ?? ""
  return ofOwner !== "" && mayOffer(values.getPublic("models"), ofOwner) ? ofOwner : undefined
}

/** True also before the runner has named its models. */
const mayOffer = (state: unknown, name: string): boolean => {
  const providers = knownModels.safeParse(state).data ?? []
  return (
    providers.length === 0 ||
    providers.some(({ provider, models }) =>
      models.some(({ id }) => id === name || `${provider}/${id}` === name),
    )
  )
}

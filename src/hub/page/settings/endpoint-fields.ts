/** The form of an endpoint, and the change of the config that it stands for. */
import type { Client } from "../../../wire/clients/verbs.ts"

/** An endpoint as the hub shows it. */
export interface ShownEndpoint {
  readonly id: string
  readonly name: string
  readonly host?: string
  readonly hasKey?: boolean
  /** Those that the person has named; none: all that the endpoint lists. */
  readonly models?: readonly string[]
}

export interface EndpointFields {
  readonly name: string
  readonly url: string
  readonly key: string
  readonly models: string
}

export const EMPTY_FIELDS: EndpointFields = { name: "", url: "", key: "", models: "" }

/** The address and the key of a known endpoint are not shown: empty fields keep them. */
export const fieldsOf = ({ name, models = [] }: ShownEndpoint): EndpointFields => ({
  ...EMPTY_FIELDS,
  name,
  models: models.join(", "),
})

const isUrl = (text: string): boolean => /^https?:\/\/.+/.test(text)

export const isComplete = (
  { name, url }: EndpointFields,
  changed: ShownEndpoint | undefined,
): boolean =>
  changed ? name.trim() !== "" && (url === "" || isUrl(url)) : idOf(name) !== "" && isUrl(url)

type EndpointPatch = NonNullable<NonNullable<Client<"config">["patch"]>["customProviders"]>

/** A new endpoint gets an id that no other has, so that it replaces none. */
export const patchOf = (
  { name, url, key, models }: EndpointFields,
  changed: ShownEndpoint | undefined,
  others: readonly string[],
): EndpointPatch => ({
  [changed?.id ?? freeId(idOf(name), others)]: {
    displayName: name.trim(),
    ...(url !== "" && { baseUrl: url }),
    ...(key !== "" && { apiKey: key }),
    models: models
      .split(",")
      .map((id) => id.trim())
      .filter((id) => id !== "")
      .map((id) => ({ id })),
  },
})

const MAX_ID = 56

const idOf = (name: string): string =>
  name
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "-")
    .replaceAll(/^-|-$/g, "")
    .slice(0, MAX_ID)

const freeId = (id: string, taken: readonly string[]): string => {
  const isFree = (one: string) => !taken.includes(one)
  const candidates = [id, ...taken.map((_, index) => `${id}-${index + 2}`)]
  return candidates.find(isFree) ?? `${id}-${taken.length + 2}`
}

/** The schema of Kubernetes for an object, from the OpenAPI description of its API. */

interface Model {
  readonly validate: () => void
}

/** Why the object is invalid; undefined if it is valid. Throws for a kind without a schema. */
export const schemaProblem = async (object: {
  readonly apiVersion?: string
  readonly kind?: string
}): Promise<string | undefined> => {
  const { apiVersion = "", kind = "" } = object
  const module = (await import(`kubernetes-models/${apiVersion}/${kind}`)) as Readonly<
    Record<string, new (data: object) => Model>
  >
  const KindModel = module[kind]
  if (!KindModel) throw new Error(`${apiVersion} has no ${kind}`)
  try {
    new KindModel(object).validate()
    return undefined
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}

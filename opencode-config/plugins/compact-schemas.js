/**
 * Removes what tells a model nothing from the schemas of tools. Every request to a model carries every schema, and the
 * address of the JSON Schema dialect alone is 60 bytes of each.
 */
const compact = (schema) => {
  if (Array.isArray(schema)) return schema.map(compact)
  if (typeof schema !== "object" || schema === null) return schema
  return Object.fromEntries(
    Object.entries(schema)
      .filter(([key, value]) => !isSilent(key, value))
      .map(([key, value]) => [key, key === "properties" ? compactEach(value) : compact(value)]),
  )
}

/** The keys of `properties` are names of arguments and not keywords. */
const compactEach = (properties) =>
  Object.fromEntries(Object.entries(properties).map(([name, schema]) => [name, compact(schema)]))

const isSilent = (key, value) =>
  key === "$schema" || key === "propertyNames" || (key === "additionalProperties" && isAny(value))

/** True of the schema that allows every value, which is the default. */
const isAny = (value) =>
  typeof value === "object" && value !== null && Object.keys(value).length === 0

export const CompactSchemas = async () => ({
  "tool.definition": async (_tool, definition) => {
    if (definition.jsonSchema) definition.jsonSchema = compact(definition.jsonSchema)
  },
})

/** The checks that the table passes before anything reads it. */
import { type Operation, toolsOf, type WireRequest } from "./define.ts"

export const checkTable = (
  operations: readonly Operation[],
  requests: readonly WireRequest[],
): void => {
  const names = operations.map(({ name }) => name)
  const routes = operations.map(({ method, path }) => `${method} ${path.replaceAll(/:\w+/g, ":*")}`)
  const tools = operations.flatMap(toolsOf).map(({ name }) => name)
  const types = requests.map(({ type }) => type)
  refuseTwice("operation", names)
  refuseTwice("route", routes)
  refuseTwice("tool", tools)
  refuseTwice("wire request", types)
  requests.forEach(refuseEnvelopeNames)
}

function refuseTwice(kind: string, names: readonly string[]): void {
  const twice = names.find((name, place) => names.indexOf(name) !== place)
  if (twice !== undefined) throw new Error(`the ${kind} ${twice} is in the table twice`)
}

/** Fields lie flat beside those of the envelope, so a field of the same name would be lost. */
function refuseEnvelopeNames({ type, fields, result }: WireRequest): void {
  const names = [...Object.keys(fields.shape), ...Object.keys(result.shape)]
  const taken = names.find((name) =>
    ["type", "requestId", "opencodeSessionId", "seq", "error"].includes(name),
  )
  if (taken !== undefined) throw new Error(`the wire request ${type} has a field named ${taken}`)
}

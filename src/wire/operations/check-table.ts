/** Checks the operations table when the module loads: names are unique and fields do not collide with frame fields. */
import { type Operation, toolsOf, type WireRequest } from "./define.ts"

export const checkTable = (
  operations: readonly Operation[],
  requests: readonly WireRequest[],
): void => {
  const names = operations.map(({ name }) => name)
  const routes = operations.map(({ method, path }) => `${method} ${path.replaceAll(/:\w+/g, ":*")}`)
  const tools = operations.flatMap(toolsOf).map(({ name }) => name)
  const types = requests.map(({ type }) => type)
  rejectDuplicate("operation", names)
  rejectDuplicate("route", routes)
  rejectDuplicate("tool", tools)
  rejectDuplicate("wire request", types)
  requests.forEach(rejectFrameFields)
}

function rejectDuplicate(kind: string, names: readonly string[]): void {
  const duplicate = names.find((name, index) => names.indexOf(name) !== index)
  if (duplicate !== undefined) throw new Error(`the ${kind} ${duplicate} is in the table twice`)
}

/** Request fields share one object with the fields of the frame, so an equal name would overwrite one of them. */
function rejectFrameFields({ type, fields, result }: WireRequest): void {
  const names = [...Object.keys(fields.shape), ...Object.keys(result.shape)]
  const taken = names.find((name) =>
    ["type", "requestId", "opencodeSessionId", "seq", "error"].includes(name),
  )
  if (taken !== undefined) throw new Error(`the wire request ${type} has a field named ${taken}`)
}

/** Errors of the key broker reach OpenCode as an HTTP response: here they become a sentence for people. Pure. */
import { z } from "zod"
import { parseJson } from "../../lib/json.ts"

const body = z.object({ error: z.object({ message: z.string() }) })
/** The broker puts this before its errors: an error of a provider has another start. */
const MARK = /^sandpiper: /

/** Names the model and what the broker reports, such as the address that cannot be reached. Other texts stay as they are. */
export const describeBrokerError = (text: string, model: string | undefined): string => {
  const message = [text, bodyIn(text)].find((one) => one !== undefined && MARK.test(one))
  if (message === undefined) return text
  const plain = message.replace(MARK, "")
  return model === undefined ? plain : `${model}: ${plain}`
}

/** The libraries of some providers quote the body of the response. */
const bodyIn = (text: string): string | undefined => {
  const start = text.indexOf("{")
  return start === -1 ? undefined : body.safeParse(parseJson(text.slice(start))).data?.error.message
}

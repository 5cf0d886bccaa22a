/** Text that arrives in pieces: a delta says where in the part's text it starts, so repeating it does no harm. */
import type { MessagePart } from "../../wire/clients/conversation.ts"

/**
 * The part with the delta, or `undefined` when text before it is missing. A delta that ends inside the known text is a
 * repetition of older text and changes nothing.
 */
export const applyDelta = (
  part: MessagePart,
  offset: number,
  added: string,
): MessagePart | undefined => {
  const text = part.text ?? ""
  if (offset > text.length) return undefined
  if (offset + added.length <= text.length) return part
  return { ...part, text: text.slice(0, offset) + added }
}

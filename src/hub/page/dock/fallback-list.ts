/** The ordered list of models that a prompt goes on with. Pure. */

/** The config of a session takes this many. */
const MAX_FALLBACKS = 10

/** Puts `id` at the position `at`, or removes that position when `id` is empty. A model is in the list once. */
export const withFallback = (
  list: readonly string[],
  at: number,
  id: string,
): readonly string[] => {
  const others = (from: number, to?: number) => list.slice(from, to).filter((one) => one !== id)
  return [...others(0, at), ...(id === "" ? [] : [id]), ...others(at + 1)]
}

/** One choice per entry, and an empty one to add another where a model is left. */
export const fallbackChoices = (
  list: readonly string[],
  models: readonly string[],
  current: string | undefined,
): readonly { readonly id: string; readonly offered: readonly string[] }[] => {
  const isFree = (id: string) => id !== current && !list.includes(id)
  const free = models.filter(isFree)
  const chosen = list.map((id) => ({ id, offered: [id, ...free] }))
  const hasRoom = free.length > 0 && list.length < MAX_FALLBACKS
  return hasRoom ? [...chosen, { id: "", offered: free }] : chosen
}

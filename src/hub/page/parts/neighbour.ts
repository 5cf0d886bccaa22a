/** The entry before or after another one in a list; undefined at its ends, and for an entry that is not in it. Pure. */
export const neighbourOf = (ids: readonly string[], id: string, by: 1 | -1): string | undefined => {
  const at = ids.indexOf(id)
  return at === -1 ? undefined : ids[at + by]
}

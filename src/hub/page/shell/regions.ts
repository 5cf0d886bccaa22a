/** The regions of the page and the rows of its lists, for moving between them by keys. */

/** Each region and what gets the focus in it; the first that is there. */
const REGIONS: readonly (readonly [area: string, ...entries: string[]])[] = [
  ["#side", "#side a[aria-current]", "#side .side-new"],
  ["#log", "#log"],
  ["#dock", "#prompt", "#dock button"],
  ["#panel", "#panel [role=tab][aria-selected=true]"],
]

/** F6 goes round the regions of the page. */
export const moveRegion = (by: 1 | -1): void => {
  const found = REGIONS.flatMap(([area, ...entries]) => {
    const entry = entries
      .map((selector) => document.querySelector<HTMLElement>(selector))
      .find((element) => element !== null)
    return entry ? [{ area: document.querySelector(area), entry }] : []
  })
  const at = found.findIndex(({ area }) => area?.contains(document.activeElement))
  // Outside of every region, the first key goes to the first or the last one.
  const next = at === -1 && by === -1 ? -1 : at + by
  found.at(next % found.length)?.entry.focus()
}

/** Each list and its rows. */
const LISTS: readonly (readonly [list: string, rows: string])[] = [
  ["#side", "#side a.row"],
  [".changes", ".changes .file-head"],
]

/** J and K move between the rows of the list that has the focus; `false` where there is none. */
export const moveInList = (by: 1 | -1): boolean => {
  const focused = document.activeElement
  const [, selector] = LISTS.find(([list]) => focused?.closest(list)) ?? []
  if (selector === undefined) return false
  const rows = [...document.querySelectorAll<HTMLElement>(selector)]
  const at = rows.findIndex((row) => row === focused)
  // From elsewhere in the list, the first key goes to its first row.
  rows[at === -1 ? 0 : Math.min(rows.length - 1, Math.max(0, at + by))]?.focus()
  return true
}

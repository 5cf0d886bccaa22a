/** The lines of a hunk as rows of two columns: before on the left, after on the right. Pure. */
import type { DiffLine } from "./patch.ts"

export interface SideRow {
  readonly left?: DiffLine
  readonly right?: DiffLine
}

/** Removed lines stand beside the added lines that follow them; the longer side has rows of its own. */
export const sideRows = (lines: readonly DiffLine[]): readonly SideRow[] => {
  const rows: SideRow[] = []
  let removed: DiffLine[] = []
  let added: DiffLine[] = []
  const flush = () => {
    for (let index = 0; index < Math.max(removed.length, added.length); index++) {
      const [left, right] = [removed[index], added[index]]
      rows.push({ ...(left && { left }), ...(right && { right }) })
    }
    removed = []
    added = []
  }
  for (const line of lines) {
    if (line.type === "removed") {
      if (added.length > 0) flush()
      removed.push(line)
    } else if (line.type === "added") added.push(line)
    else {
      flush()
      rows.push({ left: line, right: line })
    }
  }
  flush()
  return rows
}

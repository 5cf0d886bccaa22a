/**
 * What a terminal shows: lines, wrapping at its width, and the control sequences that a line editor uses. Lines that scroll
 * out stay in `lines`. Wide characters are not supported.
 */
export interface Screen {
  readonly write: (text: string) => void
  readonly lines: () => readonly string[]
  readonly cursor: () => { readonly row: number; readonly column: number }
}

const SEQUENCE =
  /^\u001B(?:\[([\d;?<=>]*)([@-~])|\][^\u0007\u001B]*(?:\u0007|\u001B\\)|[()].|[^[\]])/

export const createScreen = (cols: number): Screen => {
  const rows: string[][] = [[]]
  let row = 0
  let column = 0
  let rest = ""

  const rowAt = (index: number): string[] => {
    while (rows.length <= index) rows.push([])
    return rows[index] ?? []
  }
  const put = (character: string) => {
    if (column >= cols) {
      row += 1
      column = 0
    }
    const line = rowAt(row)
    while (line.length < column) line.push(" ")
    line[column] = character
    column += 1
  }
  const control = (parameters: string, final: string) => {
    const count = Math.max(1, Number(parameters) || 1)
    switch (final) {
      case "A":
        row = Math.max(0, row - count)
        break
      case "B":
        row += count
        break
      case "C":
        column = Math.min(cols - 1, column + count)
        break
      case "D":
        column = Math.max(0, column - count)
        break
      case "G":
        column = count - 1
        break
      case "K":
        rowAt(row).length = Math.min(rowAt(row).length, parameters === "2" ? 0 : column)
        break
      case "J":
        if (parameters === "2") {
          rows.length = 0
          row = 0
          column = 0
          rowAt(0)
          break
        }
        rowAt(row).length = Math.min(rowAt(row).length, column)
        rows.length = row + 1
        break
      case "H":
        row = 0
        column = 0
        break
      default:
        break
    }
  }

  return {
    write: (text) => {
      rest += text
      while (rest !== "") {
        const [character = ""] = rest
        if (character === "\u001B") {
          const match = SEQUENCE.exec(rest)
          if (!match) {
            if (rest.length > 200) rest = rest.slice(1)
            else return
            continue
          }
          if (match[2] !== undefined) control(match[1] ?? "", match[2])
          rest = rest.slice(match[0].length)
          continue
        }
        rest = rest.slice(character.length)
        if (character === "\n") {
          row += 1
          rowAt(row)
        } else if (character === "\r") column = 0
        else if (character === "\b") column = Math.max(0, column - 1)
        else if (character >= " ") put(character)
      }
    },
    lines: () =>
      rows.map((line) =>
        line
          .map((cell) => cell ?? " ")
          .join("")
          .trimEnd(),
      ),
    cursor: () => ({ row, column }),
  }
}

/** The colours of a command's output as styled pieces; every other escape sequence is dropped. Pure. */

export interface AnsiPiece {
  readonly text: string
  /** A class of `bash.css`, or empty. */
  readonly style: string
}

const COLOURS: Readonly<Record<number, string>> = {
  31: "is-red",
  32: "is-green",
  33: "is-yellow",
  34: "is-blue",
  35: "is-magenta",
  36: "is-cyan",
  90: "is-dim",
  91: "is-red",
  92: "is-green",
  93: "is-yellow",
  94: "is-blue",
  95: "is-magenta",
  96: "is-cyan",
}

// Colours (CSI ... m), other CSI sequences, OSC strings up to BEL or ST, and two-character escapes.
const ESCAPE = new RegExp(
  "\u001B(?:\\[([0-9;]*)m|\\[[0-?]*[ -/]*[@-~]|\\][^\u0007\u001B]*(?:\u0007|\u001B\\\\|$)|[ -/]+[0-~]|[@-Z\\\\^_]|\\[[0-?]*$|$)",
  "g",
)
const CONTROL = new RegExp("[\u0000-\u0008\u000B-\u001F\u007F]", "g")

export const ansiPieces = (source: string): readonly AnsiPiece[] => {
  const pieces: AnsiPiece[] = []
  let colour = ""
  let bold = false
  let at = 0
  const push = (text: string) => {
    const clean = overwrite(text).replace(CONTROL, "")
    const style = `${colour}${bold ? " is-bold" : ""}`.trim()
    if (clean === "") return
    const last = pieces.at(-1)
    if (last?.style === style) pieces.splice(-1, 1, { text: last.text + clean, style })
    else pieces.push({ text: clean, style })
  }
  for (const match of source.matchAll(ESCAPE)) {
    push(source.slice(at, match.index))
    at = match.index + match[0].length
    if (match[1] === undefined) continue
    for (const code of match[1].split(";").map(Number)) {
      if (code === 0) [colour, bold] = ["", false]
      else if (code === 1) bold = true
      else if (code === 22) bold = false
      else if (code === 39) colour = ""
      else colour = COLOURS[code] ?? colour
    }
  }
  push(source.slice(at))
  return pieces
}

/** A carriage return inside a line starts it again: progress bars show their last state. */
const overwrite = (text: string): string =>
  text.replaceAll("\r\n", "\n").replaceAll(/^.*\r(?=[^\n])/gm, "")

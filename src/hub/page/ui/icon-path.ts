/** The shapes of an icon as the data of one path: an icon in the document is then two nodes. Pure. */

/** A shape of the icon set: its tag and its attributes. */
export type Shape = readonly [tag: string, attributes: Readonly<Record<string, unknown>>]

export const iconPath = (shapes: readonly Shape[]): string => shapes.map(dataOf).join("")

const dataOf = ([tag, attributes]: Shape): string => {
  const number = (name: string): number => Number(attributes[name] ?? 0)
  switch (tag) {
    case "path":
      return absoluteStart(String(attributes["d"]))
    case "line":
      return `M${number("x1")} ${number("y1")}L${number("x2")} ${number("y2")}`
    case "circle":
      return ellipse(number("cx"), number("cy"), number("r"), number("r"))
    case "ellipse":
      return ellipse(number("cx"), number("cy"), number("rx"), number("ry"))
    case "rect":
      return rectangle(attributes, number)
    case "polyline":
    case "polygon":
      return `M${String(attributes["points"])}${tag === "polygon" ? "z" : ""}`
    default:
      throw new Error(`an icon has the shape ${tag}, which is not known here`)
  }
}

/** A relative start is absolute at the beginning of a path only; the points that follow it stay relative. */
const absoluteStart = (data: string): string =>
  data.replace(RELATIVE_START, (_start, x: string, y: string, next: string) =>
    /[a-z]|^$/i.test(next) ? `M${x} ${y}${next}` : `M${x} ${y}l${next}`,
  )

const RELATIVE_START = /^\s*m\s*(-?(?:\d+\.?\d*|\.\d+))[\s,]*(-?(?:\d+\.?\d*|\.\d+))[\s,]*(.?)/

const ellipse = (cx: number, cy: number, rx: number, ry: number): string =>
  `M${cx - rx} ${cy}a${rx} ${ry} 0 1 0 ${2 * rx} 0a${rx} ${ry} 0 1 0 ${-2 * rx} 0z`

const rectangle = (
  attributes: Readonly<Record<string, unknown>>,
  number: (name: string) => number,
): string => {
  const [x, y, width, height] = [number("x"), number("y"), number("width"), number("height")]
  const r = Number(attributes["rx"] ?? attributes["ry"] ?? 0)
  const corner = (dx: number, dy: number) => (r === 0 ? "" : `a${r} ${r} 0 0 1 ${dx} ${dy}`)
  return [
    `M${x + r} ${y}h${width - 2 * r}`,
    `${corner(r, r)}v${height - 2 * r}`,
    `${corner(-r, r)}h${2 * r - width}`,
    `${corner(-r, -r)}v${2 * r - height}`,
    `${corner(r, -r)}z`,
  ].join("")
}

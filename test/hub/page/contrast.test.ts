/** Every pair of text and ground that the page uses is readable, in light and in dark. */
import { expect, test } from "bun:test"
import { join } from "node:path"

const css = await Bun.file(join(import.meta.dir, "../../../src/hub/page/tokens.css")).text()

const tokens = new Map(
  [...css.matchAll(/--([\w-]+): light-dark\((#[\da-f]{6}), (#[\da-f]{6})\)/g)].map(
    ([, name = "", light = "", dark = ""]) => [name, [light, dark] as const],
  ),
)

const luminance = (colour: string): number => {
  const [r = 0, g = 0, b = 0] = [1, 3, 5]
    .map((at) => Number.parseInt(colour.slice(at, at + 2), 16) / 255)
    .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4))
  return 0.2126 * r + 0.7152 * g + 0.0722 * b
}

const contrast = (a: string, b: string): number => {
  const [light = 0, dark = 0] = [luminance(a), luminance(b)].toSorted((x, y) => y - x)
  return (light + 0.05) / (dark + 0.05)
}

const grounds = ["bg", "surface", "sunken", "hover"]
const code = ["code-bg", "add-bg", "del-bg"]
const pairs: readonly (readonly [text: string, ground: string, least: number])[] = [
  ...["ink", "ink-2", "ink-3"].flatMap((text) =>
    [...grounds, "bubble", "active"].map((ground) => [text, ground, 4.5] as const),
  ),
  ...["accent", "good", "warn", "bad"].flatMap((text) =>
    ["bg", "surface", "sunken"].map((ground) => [text, ground, 4.5] as const),
  ),
  ["accent", "accent-soft", 4.5],
  ["on-accent", "accent", 4.5],
  ["on-accent", "accent-hover", 4.5],
  ["warn", "warn-soft", 4.5],
  ["bad", "bad-soft", 4.5],
  ["ink", "warn-soft", 4.5],
  ["ink", "bad-soft", 4.5],
  ["ink", "add-mark", 4.5],
  ["ink", "del-mark", 4.5],
  ...[
    "code-key",
    "code-str",
    "code-num",
    "code-fn",
    "code-type",
    "code-note",
    "ink",
    "ink-3",
  ].flatMap((text) => code.map((ground) => [text, ground, 4.5] as const)),
  ["good", "add-bg", 4.5],
  ["bad", "del-bg", 4.5],
  ["field", "bg", 3],
  ["field", "surface", 3],
]

test.each(pairs)(
  "%s on %s has a contrast of at least %d in light and in dark",
  (text, ground, least) => {
    const [front, back] = [tokens.get(text), tokens.get(ground)]
    if (!front || !back) throw new Error(`tokens.css has no ${front ? ground : text}`)
    expect(contrast(front[0], back[0])).toBeGreaterThanOrEqual(least)
    expect(contrast(front[1], back[1])).toBeGreaterThanOrEqual(least)
  },
)

/** Colours for code, once the highlighter is there. Until then, and for unknown languages, code is plain text. */
import { signal } from "@preact/signals"
import { sanitizeCode } from "./sanitize.ts"
import { createTextCache } from "./text-cache.ts"

type Highlighter = typeof import("./languages.ts")

const highlighter = signal<Highlighter | undefined>(undefined)

const load = async () => {
  highlighter.value = await import("./languages.ts")
}

/** Starts to load the highlighter; calling it again does nothing. */
export const loadHighlighter = (): void => {
  if (!highlighter.value) void load()
}

/** More characters take longer than a frame. */
const MAX_CODE = 60_000

export const highlight = (code: string, language: string): string | undefined => {
  const loaded = highlighter.value
  if (!loaded || language === "" || code.length > MAX_CODE) return undefined
  return coloured.get(keyOf(code, language), () => {
    const html = loaded.highlightHtml(code, language)
    return { html: html === undefined ? undefined : sanitizeCode(html) }
  }).html
}

const coloured = createTextCache<{ readonly html: string | undefined }>(500_000)

const keyOf = (code: string, language: string): string => `${language}\n${code}`

/** The colours are in the cache. */
export const isHighlighted = (code: string, language: string): boolean =>
  coloured.has(keyOf(code, language))

const EXTENSIONS: Readonly<Record<string, string>> = {
  ts: "typescript",
  tsx: "typescript",
  mts: "typescript",
  js: "javascript",
  jsx: "javascript",
  mjs: "javascript",
  py: "python",
  rs: "rust",
  rb: "ruby",
  sh: "bash",
  md: "markdown",
  yml: "yaml",
  html: "xml",
  svg: "xml",
  h: "c",
  hpp: "cpp",
  cc: "cpp",
  toml: "ini",
  jsonc: "json",
}

export const languageOfPath = (path: string): string => {
  const name = path.slice(path.lastIndexOf("/") + 1)
  if (name === "Dockerfile") return "dockerfile"
  const extension = name.slice(name.lastIndexOf(".") + 1).toLowerCase()
  return EXTENSIONS[extension] ?? extension
}

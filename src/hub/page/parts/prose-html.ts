/** One block of Markdown as HTML. Raw HTML is shown as text, an image as a link to it. Pure; the result is not yet safe. */
import { Parser, Renderer, type Token, type Tokens } from "marked"

const escapeHtml = (text: string): string =>
  text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;")

/** Headings of a reply stand below those of the prompts, which are at the second level. */
const FIRST_LEVEL = 3

/** How far the headings of a text move, so that its highest one is at the first level of a reply. */
export const headingShift = (blocks: readonly Token[]): number => {
  const depths = blocks.flatMap((block) => (isHeading(block) ? [block.depth] : []))
  return depths.length === 0 ? 0 : FIRST_LEVEL - Math.min(...depths)
}

const isHeading = (block: Token): block is Tokens.Heading => block.type === "heading"

const hostOf = (address: string): string => {
  try {
    return new URL(address).host
  } catch {
    return ""
  }
}

/** A link whose text names another host than its address shows the real host after it. */
const misleads = (text: string, href: string): boolean => {
  const named = /^\s*(?:https?:\/\/)?([\w-]+(?:\.[\w-]+)+)/i.exec(text)?.[1]?.toLowerCase()
  const host = hostOf(href).toLowerCase()
  if (named === undefined || host === "") return false
  return host !== named && !host.endsWith(`.${named}`) && !/^[\w-]+\.(ts|js|md|json)$/.test(named)
}

const linkHtml = (href: string, inner: string, text: string): string => {
  if (!/^(?:https?:|mailto:|#)/i.test(href)) return inner
  const note = misleads(text, href) ? ` <span>(${escapeHtml(hostOf(href))})</span>` : ""
  return `<a href="${escapeHtml(href)}">${inner}</a>${note}`
}

const createRenderer = (shift: number): Renderer => {
  const renderer = new Renderer()
  renderer.html = ({ text }) => escapeHtml(text)
  renderer.image = ({ href, text }) =>
    linkHtml(href, escapeHtml(text === "" ? href : text), text === "" ? href : text)
  renderer.link = ({ href, text, tokens }) =>
    linkHtml(href, renderer.parser.parseInline(tokens), text)
  renderer.heading = ({ tokens, depth }) => {
    const level = Math.max(FIRST_LEVEL, Math.min(6, depth + shift))
    return `<h${level}>${renderer.parser.parseInline(tokens)}</h${level}>`
  }
  return renderer
}

export const proseHtml = (block: Token, shift = FIRST_LEVEL - 1): string =>
  Parser.parse([block], { gfm: true, renderer: createRenderer(shift) })

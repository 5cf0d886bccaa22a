/** One block of Markdown as HTML. Raw HTML is shown as text, an image as a link to it. Pure; the result is not yet safe. */
import { Parser, Renderer, type Token } from "marked"

const escapeHtml = (text: string): string =>
  text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;")

/** Headings of a reply stand below the headings of the page. */
const HEADING_SHIFT = 2

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

const createRenderer = (): Renderer => {
  const renderer = new Renderer()
  renderer.html = ({ text }) => escapeHtml(text)
  renderer.image = ({ href, text }) =>
    linkHtml(href, escapeHtml(text === "" ? href : text), text === "" ? href : text)
  renderer.link = ({ href, text, tokens }) =>
    linkHtml(href, renderer.parser.parseInline(tokens), text)
  renderer.heading = ({ tokens, depth }) => {
    const level = Math.min(6, depth + HEADING_SHIFT)
    return `<h${level}>${renderer.parser.parseInline(tokens)}</h${level}>`
  }
  return renderer
}

export const proseHtml = (block: Token): string =>
  Parser.parse([block], { gfm: true, renderer: createRenderer() })

/** HTML of the agent's Markdown and of the highlighter, made harmless: tags of prose, no styles, no ids, no scripts. */
import DOMPurify from "dompurify"

const PROSE_TAGS =
  "p br hr h1 h2 h3 h4 h5 h6 strong em del code pre blockquote ul ol li a table thead tbody tr th td input sup sub kbd span".split(
    " ",
  )

const purify = DOMPurify(window)

/** A language, or a scope of the highlighter with its sub-scopes, which end with `_`: `hljs-title function_`. */
const CLASS = /^(?:language-[\w-]+|hljs-[\w-]+(?: \w+_)*)$/

purify.addHook("uponSanitizeAttribute", (_node, data) => {
  if (data.attrName === "class") data.keepAttr = CLASS.test(data.attrValue)
})
purify.addHook("afterSanitizeAttributes", (node) => {
  if (node.nodeName === "A") {
    node.setAttribute("target", "_blank")
    node.setAttribute("rel", "noopener noreferrer nofollow")
  }
  // A checkbox of a task list; any other field would be a form of the agent's.
  if (node.nodeName === "INPUT") {
    if (node.getAttribute("type") === "checkbox") node.setAttribute("disabled", "")
    else node.remove()
  }
  // Wide content scrolls in itself, so it must be reachable by keyboard.
  if (node.nodeName === "TABLE" || node.nodeName === "PRE") node.setAttribute("tabindex", "0")
})

/** The result is TrustedHTML, which the content security policy asks for; Preact types the field as a string. */
export const sanitizeProse = (html: string): string =>
  purify.sanitize(html, {
    ALLOWED_TAGS: PROSE_TAGS,
    ALLOWED_ATTR: ["href", "title", "class", "start", "align", "checked", "disabled", "type"],
    ALLOWED_URI_REGEXP: /^(?:https?:|mailto:|#)/i,
    ALLOW_DATA_ATTR: false,
    ALLOW_ARIA_ATTR: false,
    RETURN_TRUSTED_TYPE: true,
  }) as unknown as string

export const sanitizeCode = (html: string): string =>
  purify.sanitize(html, {
    ALLOWED_TAGS: ["span"],
    ALLOWED_ATTR: ["class"],
    ALLOW_DATA_ATTR: false,
    ALLOW_ARIA_ATTR: false,
    RETURN_TRUSTED_TYPE: true,
  }) as unknown as string

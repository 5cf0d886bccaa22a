/** HTML of the agent's Markdown and of the highlighter, made harmless: tags of prose, no styles, no ids, no scripts. */
import DOMPurify, { type Config } from "dompurify"

interface TrustedTypes {
  readonly createPolicy: (
    name: string,
    rules: Readonly<Record<"createHTML" | "createScriptURL", (text: string) => string>>,
  ) => NonNullable<Config["TRUSTED_TYPES_POLICY"]>
}

const PROSE_TAGS =
  "p br hr h1 h2 h3 h4 h5 h6 strong em del code pre blockquote ul ol li a table thead tbody tr th td input sup sub kbd span".split(
    " ",
  )

/** The content security policy allows one policy of this name, so both sanitizers share it. */
const policy = (window as { readonly trustedTypes?: TrustedTypes }).trustedTypes?.createPolicy(
  "dompurify",
  {
    createHTML: (html) => html,
    createScriptURL: (): string => {
      throw new TypeError("the page makes no address of a script from text")
    },
  },
)

/** Two sanitizers with fixed options: reading the options takes longer than sanitizing a short text. */
const [prose, code] = [DOMPurify(window), DOMPurify(window)]
const common: Config = {
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_TRUSTED_TYPE: true,
  ...(policy && { TRUSTED_TYPES_POLICY: policy }),
}

prose.setConfig({
  ...common,
  ALLOWED_TAGS: PROSE_TAGS,
  ALLOWED_ATTR: ["href", "title", "class", "start", "align", "checked", "disabled", "type"],
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:|#)/i,
})
code.setConfig({ ...common, ALLOWED_TAGS: ["span"], ALLOWED_ATTR: ["class"] })

/** A language, or a scope of the highlighter with its sub-scopes, which end with `_`: `hljs-title function_`. */
const CLASS = /^(?:language-[\w-]+|hljs-[\w-]+(?: \w+_)*)$/

for (const purify of [prose, code])
  purify.addHook("uponSanitizeAttribute", (_node, data) => {
    if (data.attrName === "class") data.keepAttr = CLASS.test(data.attrValue)
  })
prose.addHook("afterSanitizeAttributes", (node) => {
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
export const sanitizeProse = (html: string): string => prose.sanitize(html)

export const sanitizeCode = (html: string): string => code.sanitize(html)

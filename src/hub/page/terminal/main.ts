/**
 * The terminal document: tabs of the sandbox's terminals and one xterm. It is a document of the sandbox's host, shown in a
 * frame of the page, from which it takes only a theme and the focus.
 */
import { FitAddon } from "@xterm/addon-fit"
import { WebLinksAddon } from "@xterm/addon-web-links"
import { Terminal } from "@xterm/xterm"
import { createKeyBar } from "./key-bar.ts"
import { themes } from "./themes.ts"
import { connectTerminal, type Wire } from "./wire.ts"

interface TerminalRow {
  readonly id: string
  readonly title: string
}

interface TerminalList {
  readonly terminals: readonly TerminalRow[]
  /** Origins of pages that may show this document. */
  readonly pages: readonly string[]
}

const element = (id: string): HTMLElement => {
  const found = document.getElementById(id)
  if (found === null) throw new Error(`the document has no element ${id}`)
  return found
}
const [tabs, screen, status] = [element("tabs"), element("screen"), element("status")]
const encoder = new TextEncoder()
const LINK = /^https?:\/\//i
const CLIPBOARD = 52

const terminal = new Terminal({
  fontFamily: "'JetBrains Mono', ui-monospace, 'DejaVu Sans Mono', Menlo, monospace",
  fontSize: 13,
  lineHeight: 1.15,
  scrollback: 10_000,
  macOptionIsMeta: true,
  linkHandler: { activate: (_event, uri) => openLink(uri) },
})
const fit = new FitAddon()
terminal.loadAddon(fit)
terminal.loadAddon(new WebLinksAddon((_event, uri) => openLink(uri)))
// A program must not write the person's clipboard.
terminal.parser.registerOscHandler(CLIPBOARD, () => true)

const openLink = (uri: string): void => {
  if (LINK.test(uri)) window.open(uri, "_blank", "noopener,noreferrer")
}

const preference = matchMedia("(prefers-color-scheme: dark)")
const showTheme = (name?: string): void => {
  const isDark = name === undefined ? preference.matches : name === "dark"
  if (name !== undefined) document.documentElement.dataset["theme"] = isDark ? "dark" : "light"
  terminal.options.theme = themes[isDark ? "dark" : "light"]
}
preference.addEventListener("change", () => showTheme(document.documentElement.dataset["theme"]))

const view: { wire: Wire | undefined; id: string } = { wire: undefined, id: "" }

const type = (text: string): void => view.wire?.input(encoder.encode(text))
const keys = createKeyBar(element("keys"), (text) => {
  type(text)
  terminal.focus()
})
terminal.onData((text) => type(keys.apply(text)))
terminal.onBinary((text) => view.wire?.input(Uint8Array.from(text, (one) => one.charCodeAt(0))))

const show = (id: string): void => {
  view.wire?.close()
  view.id = id
  history.replaceState(undefined, "", `#${id}`)
  terminal.reset()
  view.wire = connectTerminal({
    id,
    draw: (bytes, drawn) => terminal.write(bytes, drawn),
    size: () => ({ columns: terminal.cols, rows: terminal.rows }),
    onTitle: (title) => {
      document.title = title
    },
    onState: (state) => {
      status.textContent = state === "waiting" ? "The connection is cut. Connecting again…" : ""
      if (state === "ended") void refresh()
      // A terminal that is gone is refused at every attempt.
      if (state === "waiting") void dropIfGone(id)
    },
  })
  // In a frame the page decides: a terminal that is shown again by itself must not take the keys of what a person types elsewhere.
  if (window.parent === window || document.hasFocus()) terminal.focus()
}

const dropIfGone = async (id: string): Promise<void> => {
  const list = await readList().catch(() => undefined)
  if (list !== undefined && view.id === id && !list.terminals.some((one) => one.id === id))
    await refresh()
}

const readList = async (): Promise<TerminalList> => {
  const response = await fetch("list")
  if (!response.ok) throw new Error(`HTTP ${response.status}`)
  return (await response.json()) as TerminalList
}

const openNew = async (): Promise<void> => {
  fit.fit()
  const body = JSON.stringify({ cols: terminal.cols, rows: terminal.rows })
  const response = await fetch("new", { method: "POST", body })
  const reply = (await response.json()) as { id?: string; error?: string }
  if (reply.id === undefined) {
    status.textContent = reply.error ?? "The terminal could not be opened."
    return
  }
  await refresh(reply.id)
}

const closeTerminal = async (id: string): Promise<void> => {
  await fetch(id, { method: "DELETE" })
  await refresh()
}

/** Draws the tabs anew and shows the wanted terminal, else the one of the address, else the first, else a new one. */
const refresh = async (wanted = location.hash.slice(1)): Promise<void> => {
  const { terminals } = await readList()
  const chosen = terminals.find(({ id }) => id === wanted) ?? terminals[0]
  if (chosen === undefined) return openNew()
  if (chosen.id !== view.id) show(chosen.id)
  drawTabs(terminals, chosen.id)
}

const drawTabs = (terminals: readonly TerminalRow[], chosen: string): void => {
  const entries = terminals.map(({ id, title }) => {
    const tab = makeButton(title, () => void refresh(id))
    if (id === chosen) tab.setAttribute("aria-current", "true")
    const close = makeButton(CROSS, () => void closeTerminal(id), `Close ${title}`)
    const entry = document.createElement("span")
    entry.className = "tab"
    entry.append(tab, close)
    return entry
  })
  tabs.replaceChildren(
    ...entries,
    makeButton(PLUS, () => void openNew(), "New terminal"),
  )
}

/** Lines of an icon of 24 by 24, as a path. */
const CROSS = "M18 6 6 18M6 6l12 12"
const PLUS = "M5 12h14M12 5v14"

/** A button with a text; with a label, its face is an icon. */
const makeButton = (face: string, act: () => void, label?: string): HTMLButtonElement => {
  const button = document.createElement("button")
  button.type = "button"
  button.addEventListener("click", act)
  if (label === undefined) {
    button.textContent = face
    return button
  }
  button.ariaLabel = label
  const icon = document.createElementNS("http://www.w3.org/2000/svg", "svg")
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path")
  icon.setAttribute("viewBox", "0 0 24 24")
  path.setAttribute("d", face)
  icon.append(path)
  button.append(icon)
  return button
}

/** The origin of the page around this document, once it has sent something. */
const page: { origin: string | undefined } = { origin: undefined }

/** F6 goes on to the next region of the page, Shift+F6 to the one before: a keyboard must not be caught in here. */
terminal.attachCustomKeyEventHandler(({ type: kind, key, shiftKey }) => {
  if (key !== "F6" || page.origin === undefined) return true
  if (kind === "keydown") window.parent.postMessage({ type: "leave", back: shiftKey }, page.origin)
  return false
})

/** The page sends its theme when this document has loaded, often before it is known which pages may send something. */
const early: MessageEvent<unknown>[] = []
const allowed: { pages: readonly string[] | undefined } = { pages: undefined }

const onMessage = (event: MessageEvent<unknown>): void => {
  const { data, origin, source } = event
  if (allowed.pages === undefined) return void early.push(event)
  if (source !== window.parent || !allowed.pages.includes(origin)) return
  page.origin = origin
  if (typeof data !== "object" || data === null) return
  const { type: kind, theme } = data as { type?: unknown; theme?: unknown }
  if (kind === "theme" && (theme === "light" || theme === "dark")) showTheme(theme)
  if (kind === "focus") terminal.focus()
}
addEventListener("message", onMessage)

const listenTo = (pages: readonly string[]): void => {
  allowed.pages = pages
  for (const event of early.splice(0)) onMessage(event)
}

terminal.open(screen)
showTheme()
new ResizeObserver(() => {
  fit.fit()
  view.wire?.resize()
}).observe(screen)
try {
  const { pages } = await readList()
  listenTo(pages)
  await refresh()
} catch {
  status.textContent = "The terminal cannot be reached. Open it again from the page."
}

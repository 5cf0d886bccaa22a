/** The links that `sandpiper up` shows above the chat. */
import { expect, test } from "bun:test"
import { linksOf } from "../../src/cli/local-stack.ts"

const place = {
  origin: "http://box.sandpiper.localhost:9000",
  token: "the.token",
  hasTerminals: false,
}
const shown = (...missing: Parameters<typeof linksOf>[1]) =>
  linksOf(["vnc", "vscode", "ttyd"], missing, place)

test("each requested and installed service has a link with a token", () => {
  expect(shown()).toEqual([
    "Screen    http://box.sandpiper.localhost:9000/vnc/vnc.html?path=vnc/websockify&autoconnect=true&token=the.token",
    "Editor    http://box.sandpiper.localhost:9000/vscode/?token=the.token",
    "Terminal  http://box.sandpiper.localhost:9000/ttyd/?token=the.token",
  ])
})

test("a service with missing programs has a line that names them instead of a link", () => {
  const [screen, editor, terminal] = shown(
    { group: "vnc", program: "x11vnc" },
    { group: "vnc", program: "websockify" },
    { group: "ttyd", program: "ttyd" },
  )
  expect(screen).toBe("Screen    not available: install x11vnc, websockify and restart")
  expect(editor).toContain("/vscode/?token=the.token")
  expect(terminal).toBe("Terminal  not available: install ttyd and restart")
})

test("a service that was not requested has no line", () => {
  expect(linksOf([], [{ group: "ttyd", program: "ttyd" }], place)).toEqual([])
})

test("the terminal is the runner's own where the gateway serves it, and needs no program", () => {
  const missing = [{ group: "ttyd", program: "ttyd" }] as const
  expect(linksOf(["ttyd"], missing, { ...place, hasTerminals: true })).toEqual([
    "Terminal  http://box.sandpiper.localhost:9000/terminal/?token=the.token",
  ])
})

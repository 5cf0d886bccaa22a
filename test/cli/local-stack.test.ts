/** The links that `sandpiper up` shows above the chat. */
import { expect, test } from "bun:test"
import { linksOf } from "../../src/cli/local-stack.ts"

const shown = (...missing: Parameters<typeof linksOf>[1]) =>
  linksOf(["vnc", "vscode", "ttyd"], missing, "http://box.sandpiper.localhost:9000", "the.token")

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
  expect(
    linksOf([], [{ group: "ttyd", program: "ttyd" }], "http://localhost:9000", "the.token"),
  ).toEqual([])
})

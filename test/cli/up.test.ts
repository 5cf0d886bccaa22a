/** What `sandpiper up` shows a person beside the chat. */
import { expect, test } from "bun:test"
import { linksOf } from "../../src/cli/up.ts"

const shown = (...missing: Parameters<typeof linksOf>[1]) =>
  linksOf(["vnc", "vscode", "ttyd"], missing, 9000, "the.token")

test("each service that is wanted and installed has a link", () => {
  expect(shown()).toEqual([
    "Screen    http://localhost:9000/vnc/vnc.html?path=vnc/websockify&autoconnect=true&token=the.token",
    "Editor    http://localhost:9000/vscode/?token=the.token",
    "Terminal  http://localhost:9000/ttyd/?token=the.token",
  ])
})

test("one that lacks a program has a line that says which, and no link", () => {
  const [screen, editor, terminal] = shown(
    { group: "vnc", program: "x11vnc" },
    { group: "vnc", program: "websockify" },
    { group: "ttyd", program: "ttyd" },
  )
  expect(screen).toBe("Screen    is not there: install x11vnc, websockify and start again")
  expect(editor).toContain("/vscode/?token=the.token")
  expect(terminal).toBe("Terminal  is not there: install ttyd and start again")
})

test("what is not wanted is not spoken of", () => {
  expect(linksOf([], [{ group: "ttyd", program: "ttyd" }], 9000, "the.token")).toEqual([])
})

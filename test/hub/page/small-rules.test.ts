/** Small pure rules of the page: colours of output, Enter, addresses, suggestions, hidden characters. */
import { describe, expect, test } from "bun:test"
import { fallbackChoices, withFallback } from "../../../src/hub/page/dock/fallback-list.ts"
import { suggestionsFor, wordAt } from "../../../src/hub/page/dock/suggest.ts"
import { submitsOn } from "../../../src/hub/page/dock/submit-key.ts"
import { whyOff } from "../../../src/hub/page/panel/why-off.ts"
import { ansiPieces } from "../../../src/hub/page/parts/ansi.ts"
import { neighbourOf } from "../../../src/hub/page/parts/neighbour.ts"
import { channelFields, parseRoute, pathOf } from "../../../src/hub/page/routes.ts"
import { visible } from "../../../src/hub/page/ui/visible.ts"

describe("the output of a command", () => {
  test("colours become styles and end with a reset", () => {
    expect(ansiPieces("\u001B[31mred\u001B[0m plain \u001B[1;32mgood\u001B[39;22m end")).toEqual([
      { text: "red", style: "is-red" },
      { text: " plain ", style: "" },
      { text: "good", style: "is-green is-bold" },
      { text: " end", style: "" },
    ])
  })

  test("every other escape sequence and control character is dropped", () => {
    const text = "\u001B]0;title\u0007a\u001B[2J\u001B[?25lb\u0007c\u001B(Bd"
    expect(
      ansiPieces(text)
        .map((piece) => piece.text)
        .join(""),
    ).toBe("abcd")
    expect(ansiPieces("\u001B[2Jx\u001B]8;;http://evil\u0007y")[0]?.text).toBe("xy")
  })

  test("a progress bar shows its last state", () => {
    expect(ansiPieces("10 %\r50 %\r100 %\ndone")).toEqual([{ text: "100 %\ndone", style: "" }])
  })
})

describe("Enter in a field", () => {
  const enter = {
    key: "Enter",
    shiftKey: false,
    ctrlKey: false,
    metaKey: false,
    altKey: false,
    isComposing: false,
    keyCode: 13,
  }

  test("Enter sends, Shift+Enter does not, Control+Enter sends first", () => {
    expect(submitsOn(enter, false)).toBe("send")
    expect(submitsOn({ ...enter, shiftKey: true }, false)).toBeUndefined()
    expect(submitsOn({ ...enter, ctrlKey: true }, false)).toBe("first")
  })

  test("the Enter that confirms a candidate of an input method does not send", () => {
    expect(submitsOn({ ...enter, isComposing: true }, false)).toBeUndefined()
    expect(submitsOn({ ...enter, keyCode: 229 }, false)).toBeUndefined()
    expect(submitsOn({ ...enter, keyCode: 229, ctrlKey: true }, false)).toBeUndefined()
  })

  test("on a touch screen Enter is a new line", () => {
    expect(submitsOn(enter, true)).toBeUndefined()
    expect(submitsOn({ ...enter, key: "a" }, false)).toBeUndefined()
  })
})

describe("the addresses of the page", () => {
  test("an address is read as it was written", () => {
    const given = {
      session: "a/b",
      channel: "slack:C1:12.3",
      panel: "changes" as const,
      message: "m 1",
    }
    const [path = "", rest = ""] = pathOf(given).split("?")
    const [search = "", hash = ""] = rest.split("#")
    expect(parseRoute(path, `?${search}`, `#${hash}`)).toEqual({ place: "conversation", ...given })
  })

  test("an unknown address, an unknown panel and a channel without a type are told apart", () => {
    expect(parseRoute("/", "", "").place).toBe("start")
    expect(parseRoute("/c/local", "", "").place).toBe("unknown")
    expect(parseRoute("/c/local/nochannel", "", "").place).toBe("unknown")
    expect(parseRoute("/c/local/web:default", "?panel=nothing", "").panel).toBeUndefined()
    expect(parseRoute("/%E0%A4%A", "", "").place).toBe("unknown")
  })

  test("a channel is named by its type and its id", () => {
    expect(channelFields("slack:C1:12.3")).toEqual({ channelType: "slack", channelId: "C1:12.3" })
  })
})

describe("suggestions while typing", () => {
  test("a slash at the start offers commands, elsewhere it does not", () => {
    expect(suggestionsFor({ text: "/re", cursor: 3, files: [] }).map(({ text }) => text)).toEqual([
      "/review",
    ])
    expect(suggestionsFor({ text: "see /re", cursor: 7, files: [] })).toEqual([])
  })

  test("an at sign offers the files whose path contains the word", () => {
    const files = ["src/app.ts", "README.md"]
    expect(suggestionsFor({ text: "look at @APP", cursor: 12, files })).toEqual([
      { kind: "file", text: "@src/app.ts" },
    ])
    expect(wordAt({ text: "look at @APP", cursor: 12 })).toEqual({ from: 8, word: "@APP" })
  })
})

test("characters that reorder or hide text are shown as their code", () => {
  expect(visible("a\u202Etxt.exe")).toBe("a\\u202Etxt.exe")
  expect(visible("zero\u200Bwidth\nline")).toBe("zero\\u200Bwidth\nline")
})

describe("the fallbacks in the model picker", () => {
  test("a choice is set, moved without a duplicate, and removed by the empty one", () => {
    expect(withFallback([], 0, "a/one")).toEqual(["a/one"])
    expect(withFallback(["a/one"], 1, "b/two")).toEqual(["a/one", "b/two"])
    expect(withFallback(["a/one", "b/two"], 0, "b/two")).toEqual(["b/two"])
    expect(withFallback(["a/one", "b/two", "c/three"], 1, "")).toEqual(["a/one", "c/three"])
  })

  test("each choice offers itself and the models that are free, and the last one is empty", () => {
    const models = ["a/one", "b/two", "c/three"]
    expect(fallbackChoices(["b/two"], models, "a/one")).toEqual([
      { id: "b/two", offered: ["b/two", "c/three"] },
      { id: "", offered: ["c/three"] },
    ])
    // A fallback that the agent does not offer any more can still be removed.
    expect(fallbackChoices(["x/gone"], ["a/one"], "a/one")).toEqual([
      { id: "x/gone", offered: ["x/gone"] },
    ])
    expect(fallbackChoices([], ["a/one"], "a/one")).toEqual([])
  })
})

test("the images before and after one are found, and there is none beyond the ends", () => {
  expect(neighbourOf(["a", "b", "c"], "b", 1)).toBe("c")
  expect(neighbourOf(["a", "b", "c"], "b", -1)).toBe("a")
  expect(neighbourOf(["a", "b", "c"], "c", 1)).toBeUndefined()
  expect(neighbourOf(["a", "b", "c"], "a", -1)).toBeUndefined()
  expect(neighbourOf(["a"], "gone", 1)).toBeUndefined()
})

describe("a panel whose program does not run", () => {
  test("missing programs are named with the command that installs them", () => {
    const editor = whyOff("vscode", ["code-server"], ["code-server", "Xvfb"])
    expect(editor.text).toContain("code-server is not installed")
    expect(editor.command).toBe("npm install --global code-server")
    const screen = whyOff("vnc", ["Xvfb", "x11vnc", "websockify"], ["Xvfb", "websockify"])
    expect(screen.text).toContain("Xvfb and websockify are not installed")
    expect(screen.command).toBe("apt-get install xvfb websockify novnc")
  })

  test("a service that was not asked for says how to turn it on", () => {
    for (const lacks of [undefined, [], ["Xvfb"]]) {
      const editor = whyOff("vscode", ["code-server"], lacks)
      expect(editor.text).toContain("turned off")
      expect(editor.command).toBe("SANDPIPER_SERVICES=vscode")
    }
    expect(whyOff("terminal", [], undefined)).toEqual({ text: "This agent serves no terminals." })
  })
})

/** The names under which the page shows sandboxes of its own machine. */
import { expect, test } from "bun:test"
import { besidePage } from "../../../src/hub/page/client/beside-page.ts"

const page = { hostname: "sandpiper.localhost" }
const link = "http://127.0.0.1:20123/terminal/?token=abc"

test("a sandbox on this machine gets a name below the page's, with its port, path and token", async () => {
  const shown = new URL(await besidePage(link, "s1", page))
  expect(shown.hostname).toMatch(/^box-[0-9a-f]{20}\.sandpiper\.localhost$/)
  expect(`${shown.port}${shown.pathname}${shown.search}`).toBe("20123/terminal/?token=abc")
})

test("a session keeps its name, and another session has another one", async () => {
  const nameOf = async (session: string) => new URL(await besidePage(link, session, page)).hostname
  expect(await nameOf("s1")).toBe(await nameOf("s1"))
  expect(await nameOf("s1")).not.toBe(await nameOf("s2"))
})

test("a sandbox elsewhere, or a page elsewhere, keeps the address", async () => {
  for (const [address, hostname] of [
    ["https://abc.modal.host/terminal/?token=x", "sandpiper.localhost"],
    [link, "sandpiper.example.com"],
    ["http://box.sandpiper.localhost:9000/terminal/", "sandpiper.localhost"],
  ] as const)
    expect(await besidePage(address, "s1", { hostname })).toBe(address)
})

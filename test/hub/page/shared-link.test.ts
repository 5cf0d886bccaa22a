import { expect, test } from "bun:test"
import { offerOf, pastedOffer } from "../../../src/hub/page/client/shared-link.ts"

test("login links and share links are read from the fragment, and nothing else is", () => {
  expect(offerOf("#login=abc-_1")).toEqual({ code: "abc-_1" })
  expect(offerOf("#share=s%3A1/sps_0123_abc")).toEqual({ token: "sps_0123_abc", session: "s:1" })
  for (const other of ["", "#m=1", "#login=", "#share=s1/", "#share=s1/key", "#share=%E0/sps_1"])
    expect(offerOf(other)).toBeUndefined()
})

test("a pasted text is a share link or a token without spaces", () => {
  expect(pastedOffer(" spk_1_x ")).toEqual({ token: "spk_1_x" })
  const link = "https://hub.example/#share=s1/sps_1_x"
  expect(pastedOffer(link)).toEqual({ token: "sps_1_x", session: "s1" })
  for (const other of ["", "two words", "https://hub.example/#other"])
    expect(pastedOffer(other)).toBeUndefined()
})

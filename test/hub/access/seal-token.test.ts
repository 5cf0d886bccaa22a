import { expect, test } from "bun:test"
import { openToken, sealToken } from "../../../src/hub/access/seal-token.ts"

test("a sealed token opens with the cookie and the key of its login only, and shows nothing of the token", async () => {
  const plain = { token: "sps_abc_secret", session: "s1" }
  const sealed = await sealToken("cookie", "key", plain)
  expect(await openToken("cookie", "key", sealed)).toEqual(plain)
  expect(await openToken("cookie", "other", sealed)).toBeUndefined()
  expect(await openToken("other", "key", sealed)).toBeUndefined()
  expect(await openToken("cookie", "key", `${sealed.slice(0, -4)}AAAA`)).toBeUndefined()
  expect(await openToken("cookie", "key", "")).toBeUndefined()
  expect(Buffer.from(sealed, "base64url").toString("latin1")).not.toContain("secret")
})

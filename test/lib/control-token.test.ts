/** Control tokens: their claims and their lifetime. */
import { expect, test } from "bun:test"
import { jwtVerify } from "jose"
import { CONTROL_SECONDS, signControlToken } from "../../src/lib/control-token.ts"

test("a control token has the session, its own id, the scope and a lifetime of five minutes", async () => {
  const key = "a key of at least sixteen characters"
  const now = 1_700_000_000_999
  const token = await signControlToken({ key, sessionId: "s1", jti: "j1", now })
  const { payload } = await jwtVerify(token, new TextEncoder().encode(key), {
    algorithms: ["HS256"],
    currentDate: new Date(now),
  })
  expect(payload).toEqual({
    sid: "s1",
    scope: "control",
    jti: "j1",
    iat: 1_700_000_000,
    exp: 1_700_000_000 + CONTROL_SECONDS,
  })
})

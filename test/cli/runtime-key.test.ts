/** Which settings make another version of the sandboxes, for which the warm pool and base snapshots are made anew. */
import { expect, test } from "bun:test"
import { runtimeKey } from "../../src/cli/runtime-key.ts"
import type { Environment } from "../../src/settings/setting.ts"
import { readInvocation } from "../../src/settings/settings.ts"

const keyOf = (env: Environment): string => {
  const invocation = readInvocation(["serve"], { HOME: "/tmp", ...env }, "/tmp")
  if (invocation.want !== "command") throw new Error(`got ${invocation.want}`)
  return runtimeKey(invocation.settings, "docker")
}

test("an image that is built again under the same name is another version of the sandboxes", () => {
  const image = { SANDBOX_IMAGE: "birds:latest" }
  const first = keyOf({ ...image, IMAGE_BUILD_VERSION: "a1" })
  expect(keyOf({ ...image, IMAGE_BUILD_VERSION: "a1" })).toBe(first)
  expect(keyOf({ ...image, IMAGE_BUILD_VERSION: "b2" })).not.toBe(first)
  expect(keyOf(image)).not.toBe(first)
  expect(keyOf({ SANDBOX_IMAGE: "birds:next", IMAGE_BUILD_VERSION: "a1" })).not.toBe(first)
})

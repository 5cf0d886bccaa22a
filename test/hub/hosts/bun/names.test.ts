/** The host names that a request to the hub may have. */
import { expect, onTestFinished, test } from "bun:test"
import { startTestHub } from "../../kit/hub.ts"

test("a request with a configured host name is answered, and one with another name gets 421", async () => {
  const { hub, stop } = await startTestHub({ names: ["hub.example.com"], hostname: "0.0.0.0" })
  onTestFinished(stop)
  const statusOf = async (host: string) =>
    (await fetch(`${hub.url}/health`, { headers: { host } })).status
  expect(await statusOf("hub.example.com")).toBe(200)
  expect(await statusOf("127.0.0.1")).toBe(200)
  expect(await statusOf("attacker.example")).toBe(421)
})

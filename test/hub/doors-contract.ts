/** What a stranger can do at the doors of a host. Both hosts run these tests, each test on a start of its own: wrong secrets add up. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test"
import type { ContractHost } from "./contract.ts"
import { statusOfHalfSent } from "./kit/half-sent.ts"

const ATTEMPTS = 60

export const testDoors = (name: string, start: () => Promise<ContractHost>): void => {
  let host: ContractHost
  const authorization = () => ({ authorization: `Bearer ${host.clientToken}` })
  const statusesOf = async (ask: () => Promise<Response>) => {
    const statuses = new Set<number>()
    for (let sent = 0; sent < ATTEMPTS; sent += 1) {
      const response = await ask()
      await response.arrayBuffer()
      if (response.status === 429) expect(response.headers.get("retry-after")).not.toBeNull()
      statuses.add(response.status)
    }
    return [...statuses]
  }

  describe(name, () => {
    beforeEach(async () => {
      host = await start()
      await fetch(`${host.url}/sessions/doors`, {
        method: "PUT",
        headers: authorization(),
        body: JSON.stringify({ runnerToken: "the-right-runner-token-of-this-test" }),
      })
    })
    afterEach(() => host.stop())

    test("a webhook call without its secret is refused before its body has come", async () => {
      expect(await statusOfHalfSent(host.url, "/hooks/x", {}, 100_000_000)).toBe("404")
      expect(await statusOfHalfSent(host.url, "/hooks/x", {}, 1000)).toBe("404")
    })

    test("a body that is longer than the limit is refused with 413 before it has come", async () => {
      const path = "/sessions/doors/prompt"
      expect(await statusOfHalfSent(host.url, path, authorization(), 5_000_000)).toBe("413")
    })

    test("a chunked body that is longer than the limit is refused with 413", async () => {
      const piece = new Uint8Array(256 * 1024)
      let left = 32
      const body = new ReadableStream<Uint8Array>({
        pull: (controller) => {
          left -= 1
          if (left < 0) controller.close()
          else controller.enqueue(piece)
        },
      })
      const response = await fetch(`${host.url}/sessions/doors/prompt`, {
        method: "POST",
        headers: authorization(),
        body,
        keepalive: false,
      })
      expect(response.status).toBe(413)
    })

    test("a body with deeply nested JSON is refused with 400", async () => {
      const response = await fetch(`${host.url}/sessions/doors/prompt`, {
        method: "POST",
        headers: authorization(),
        body: "[".repeat(1_000_000),
      })
      expect(response.status).toBe(400)
    })

    test("too many wrong API keys are answered with 429, while the right token still opens the hub", async () => {
      const key = `spk_${"0".repeat(12)}_${"A".repeat(43)}`
      const asked = await statusesOf(() =>
        fetch(`${host.url}/sessions`, { headers: { authorization: `Bearer ${key}` } }),
      )
      expect(asked).toEqual([401, 429])
      const right = await fetch(`${host.url}/sessions`, { headers: authorization() })
      expect(right.status).toBe(200)
    })

    test("too many wrong runner tokens and webhook secrets are answered with 429", async () => {
      const runner = await statusesOf(() =>
        fetch(`${host.url}/sessions/doors/ws?role=runner&token=wrong`, {
          headers: { upgrade: "websocket", connection: "upgrade" },
        }),
      )
      expect(runner).toContain(429)
      const hook = await statusesOf(() => fetch(`${host.url}/hooks/x`, { method: "POST" }))
      expect(hook).toContain(429)
    })
  })
}

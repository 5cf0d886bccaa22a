/** A program that a caller of the fleet runs in a sandbox for longer than other calls may take. */
import { expect, spyOn, test } from "bun:test"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { openSqliteStore } from "../../src/fleet/store/sqlite-store.ts"
import { runnerProvider } from "../fleet/kit/runner-provider.ts"
import { startStack } from "../fleet/kit/stack.ts"
import { CLIENT_TOKEN } from "../hub/kit/hub.ts"

const PROGRAM_MS = 140_000
/** Longer than a server of Bun keeps a silent connection by default. */
const SILENT_MS = 12_000

/** Replaces the deadlines of calls; `pass` ends those that are due after this time, at once. */
const holdDeadlines = () => {
  const held: { readonly ms: number; readonly end: AbortController }[] = []
  const timeout = spyOn(AbortSignal, "timeout").mockImplementation((ms) => {
    const end = new AbortController()
    held.push({ ms, end })
    return end.signal
  })
  return {
    held,
    pass: (passed: number) => {
      for (const { ms, end } of held)
        if (ms <= passed) end.abort(new DOMException("The operation timed out.", "TimeoutError"))
    },
    restore: () => timeout.mockRestore(),
  }
}

test("the output of a program that runs for more than two minutes reaches its caller", async () => {
  const folder = mkdtempSync(join(tmpdir(), "fleet-exec-"))
  let deadlines: ReturnType<typeof holdDeadlines> | undefined
  const gateway = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    fetch: async () => {
      // Sleep: the program is silent on purpose.
      await Bun.sleep(SILENT_MS)
      deadlines?.pass(PROGRAM_MS)
      return Response.json({ exitCode: 0, stdout: "done" })
    },
  })
  const provider = {
    ...runnerProvider(),
    address: async () => ({ is: "ok", value: { url: gateway.url.origin, headers: {} } }) as const,
  }
  const stack = await startStack(folder, { provider, store: openSqliteStore(":memory:") })
  const post = async (path: string, body?: object) => {
    const response = await fetch(`${stack.hub.url}${path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${CLIENT_TOKEN}` },
      ...(body && { body: JSON.stringify(body) }),
    })
    return { status: response.status, body: (await response.json()) as Record<string, unknown> }
  }
  const { sessionId } = (await post("/api/threads/long/resolve?wait=1")).body
  const command = { command: "sleep", args: ["140"], timeoutMs: 300_000 }
  deadlines = holdDeadlines()
  try {
    expect(await post(`/api/sandbox/${String(sessionId)}/exec`, command)).toEqual({
      status: 200,
      body: { exitCode: 0, stdout: "done" },
    })
    // The call to the sandbox has a deadline, and it is later than the end of the program.
    expect(deadlines.held.some(({ ms }) => ms > PROGRAM_MS)).toBeTrue()
  } finally {
    deadlines.restore()
    await gateway.stop(true)
    await provider.stop()
    await stack.stop()
    rmSync(folder, { recursive: true, force: true })
  }
})

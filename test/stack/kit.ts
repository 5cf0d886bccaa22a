/** Shared by the stack tests: processes that end with the test, free ports and a browser. */
import { mkdtempSync } from "node:fs"
import { mkdtemp, rm } from "node:fs/promises"
import { createConnection } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { playwrightModule } from "./places.ts"
import { browserEnvironment } from "../kit/browser.ts"
import { untilTrue } from "../kit/until-true.ts"

interface Running {
  readonly stop: () => Promise<void>
}

/**
 * Starts a program with a temporary folder of its own: programs leave sockets and caches there. `stop` kills it and all its
 * descendants, also those in other process groups, and removes the folder.
 */
export const start = (
  command: readonly string[],
  options: { readonly cwd?: string; readonly env?: Record<string, string> } = {},
): Running => {
  const own = mkdtempSync(join(tmpdir(), "program-"))
  const child = Bun.spawn([...command], {
    stdout: "ignore",
    stderr: "ignore",
    env: { ...process.env, TMPDIR: own, ...options.env },
    ...(options.cwd !== undefined && { cwd: options.cwd }),
  })
  return {
    stop: async () => {
      // Children before parents, so that no parent can start another child.
      for (const pid of descendants(child.pid).toReversed()) {
        Bun.spawnSync(["kill", "-KILL", String(pid)])
      }
      child.kill("SIGKILL")
      await child.exited
      await rm(own, { recursive: true, force: true, maxRetries: 5 })
    },
  }
}

const descendants = (pid: number): readonly number[] => {
  const { stdout } = Bun.spawnSync(["pgrep", "-P", String(pid)])
  const children = stdout.toString().trim().split("\n").filter(Boolean).map(Number)
  return children.flatMap((child) => [child, ...descendants(child)])
}

export const until = (
  condition: () => boolean | Promise<boolean>,
  what: string,
  seconds = 100,
): Promise<void> => untilTrue(condition, what, seconds * 1000)

export const listening = (port: number): Promise<void> =>
  until(
    () =>
      new Promise<boolean>((resolve) => {
        const socket = createConnection({ host: "127.0.0.1", port })
        socket.once("connect", () => {
          // A socket may connect to itself on a port without a listener (TCP simultaneous open).
          const real = socket.localPort !== port
          socket.destroy()
          resolve(real)
        })
        socket.once("error", () => resolve(false))
      }),
    `a listener on port ${port}`,
  )

export const temporaryDirectory = async () => {
  const path = await mkdtemp(join(tmpdir(), "sandpiper-stack-"))
  return { path, remove: () => rm(path, { recursive: true, force: true, maxRetries: 5 }) }
}

/** The part of playwright's types that the tests use; playwright is installed in the cache, not as a dependency. */
export interface Page {
  readonly goto: (url: string, options?: { readonly waitUntil?: string }) => Promise<unknown>
  readonly url: () => string
  readonly click: (selector: string, options?: Record<string, unknown>) => Promise<void>
  readonly waitForSelector: (
    selector: string,
    options?: Record<string, unknown>,
  ) => Promise<unknown>
  readonly waitForFunction: (
    script: string,
    argument?: unknown,
    options?: Record<string, unknown>,
  ) => Promise<unknown>
  readonly evaluate: <Result>(script: string) => Promise<Result>
  readonly textContent: (selector: string) => Promise<string | null>
  readonly keyboard: {
    readonly type: (text: string, options?: { readonly delay?: number }) => Promise<void>
    readonly press: (keys: string) => Promise<void>
  }
  readonly on: (event: string, listener: (value: never) => void) => void
  readonly context: () => { readonly cookies: () => Promise<readonly Record<string, unknown>[]> }
  readonly screenshot: (options: { readonly path: string }) => Promise<unknown>
  readonly close: () => Promise<void>
}

export interface Browser {
  readonly newPage: (options?: Record<string, unknown>) => Promise<Page>
  readonly close: () => Promise<void>
}

export const startBrowser = async (): Promise<Browser> => {
  const { chromium } = (await import(playwrightModule)) as {
    chromium: { launch: (options: Record<string, unknown>) => Promise<Browser> }
  }
  return chromium.launch({
    executablePath: Bun.which("chromium"),
    env: browserEnvironment(),
    args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"],
  })
}

/** Locks of earlier lives: whose they are decides whether they go. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test"
import { existsSync } from "node:fs"
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import {
  clearChromiumLock,
  clearCodeServerLocks,
  clearDisplayLock,
  ownerOf,
} from "../../../src/runner/host/stale-locks.ts"

let root: string
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "locks-"))
  await mkdir(join(root, ".X11-unix"))
})
afterEach(() => rm(root, { recursive: true, force: true }))

const nobody = () => undefined
const runs = (command: string) => () => command

describe("an X server's lock", () => {
  const lock = () => join(root, ".X99-lock")
  beforeEach(() => writeFile(lock(), "       4711\n"))

  test("goes when its process is dead", async () => {
    expect(await clearDisplayLock("99", nobody, root)).toEqual([lock()])
  })

  test("goes when the pid is somebody else's by now", async () => {
    expect(await clearDisplayLock("99", runs("/usr/bin/node server.js"), root)).toEqual([lock()])
  })

  test("stays when an X server holds it", async () => {
    expect(await clearDisplayLock("99", runs("/usr/bin/Xvfb :99 -screen 0"), root)).toEqual([])
    expect(existsSync(lock())).toBeTrue()
  })

  test("stays when somebody answers on the socket, whatever the pid says", async () => {
    const listener = Bun.listen({ unix: join(root, ".X11-unix/X99"), socket: { data: () => {} } })
    expect(await clearDisplayLock("99", nobody, root)).toEqual([])
    listener.stop(true)
  })

  test("of another display is left alone", async () => {
    expect(await clearDisplayLock("98", nobody, root)).toEqual([])
    expect(existsSync(lock())).toBeTrue()
  })

  test("goes together with a socket that nobody listens on", async () => {
    const socket = join(root, ".X11-unix/X99")
    await writeFile(socket, "")
    expect(await clearDisplayLock("99", nobody, root)).toEqual([lock(), socket])
  })
})

describe("Chromium's lock", () => {
  const hold = (target: string) => symlink(target, join(root, "SingletonLock"))

  test("goes when it was taken on another machine, as in a restored copy", async () => {
    await hold("host-of-before-4711")
    expect(
      await clearChromiumLock(root, runs("/usr/lib/chromium/chromium"), "this-host"),
    ).toHaveLength(1)
  })

  test("goes when the pid is not a browser", async () => {
    await hold("this-host-4711")
    expect(await clearChromiumLock(root, runs("/usr/bin/bash"), "this-host")).toHaveLength(1)
  })

  test("stays when a browser of this machine holds it", async () => {
    await hold("this-host-4711")
    expect(
      await clearChromiumLock(root, runs("/usr/lib/chromium/chromium --x"), "this-host"),
    ).toEqual([])
  })
})

describe("code-server's sockets", () => {
  const folder = () => join(root, ".local/share/code-server")
  beforeEach(() => mkdir(folder(), { recursive: true }))

  test("go when nobody listens, with the heartbeat", async () => {
    await writeFile(join(folder(), "code-server-ipc.sock"), "")
    await writeFile(join(folder(), "heartbeat"), "")
    await writeFile(join(folder(), "coder.json"), "{}")
    expect(await clearCodeServerLocks(root)).toHaveLength(2)
    expect(existsSync(join(folder(), "coder.json"))).toBeTrue()
  })

  test("stay when one of them is in use", async () => {
    const path = join(folder(), "code-server-ipc.sock")
    const listener = Bun.listen({ unix: path, socket: { data: () => {} } })
    expect(await clearCodeServerLocks(root)).toEqual([])
    listener.stop(true)
  })

  test("are no trouble when there are none", async () => {
    expect(await clearCodeServerLocks("/nonexistent")).toEqual([])
  })
})

test("the owner of a pid is what runs there now", () => {
  expect(ownerOf(process.pid)).toContain("bun")
  expect(ownerOf(2 ** 22 + 1)).toBeUndefined()
})

/** Stale lock files: the owner decides whether they are removed. */
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

const noOwner = () => undefined
const runs = (command: string) => () => command

describe("locks of X servers", () => {
  const lock = () => join(root, ".X99-lock")
  beforeEach(() => writeFile(lock(), "       4711\n"))

  test("an X lock of a dead process is removed", async () => {
    expect(await clearDisplayLock("99", noOwner, root)).toEqual([lock()])
  })

  test("an X lock whose pid belongs to another program is removed", async () => {
    expect(await clearDisplayLock("99", runs("/usr/bin/node server.js"), root)).toEqual([lock()])
  })

  test("an X lock of a running X server stays", async () => {
    expect(await clearDisplayLock("99", runs("/usr/bin/Xvfb :99 -screen 0"), root)).toEqual([])
    expect(existsSync(lock())).toBeTrue()
  })

  test("an X lock stays if the socket accepts connections", async () => {
    const listener = Bun.listen({ unix: join(root, ".X11-unix/X99"), socket: { data: () => {} } })
    expect(await clearDisplayLock("99", noOwner, root)).toEqual([])
    listener.stop(true)
  })

  test("the lock of another display stays", async () => {
    expect(await clearDisplayLock("98", noOwner, root)).toEqual([])
    expect(existsSync(lock())).toBeTrue()
  })

  test("an X socket without a listener is removed with its lock", async () => {
    const socket = join(root, ".X11-unix/X99")
    await writeFile(socket, "")
    expect(await clearDisplayLock("99", noOwner, root)).toEqual([lock(), socket])
  })
})

describe("locks of Chromium", () => {
  const hold = (target: string) => symlink(target, join(root, "SingletonLock"))

  test("a Chromium lock of another machine is removed", async () => {
    await hold("host-of-before-4711")
    expect(
      await clearChromiumLock(root, runs("/usr/lib/chromium/chromium"), "this-host"),
    ).toHaveLength(1)
  })

  test("a Chromium lock whose pid is not a browser is removed", async () => {
    await hold("this-host-4711")
    expect(await clearChromiumLock(root, runs("/usr/bin/bash"), "this-host")).toHaveLength(1)
  })

  test("a Chromium lock of a running browser stays", async () => {
    await hold("this-host-4711")
    expect(
      await clearChromiumLock(root, runs("/usr/lib/chromium/chromium --x"), "this-host"),
    ).toEqual([])
  })
})

describe("sockets of code-server", () => {
  const folder = () => join(root, ".local/share/code-server")
  beforeEach(() => mkdir(folder(), { recursive: true }))

  test("code-server sockets without a listener are removed with the heartbeat file", async () => {
    await writeFile(join(folder(), "code-server-ipc.sock"), "")
    await writeFile(join(folder(), "heartbeat"), "")
    await writeFile(join(folder(), "coder.json"), "{}")
    expect(await clearCodeServerLocks(root)).toHaveLength(2)
    expect(existsSync(join(folder(), "coder.json"))).toBeTrue()
  })

  test("code-server sockets stay if one of them is in use", async () => {
    const path = join(folder(), "code-server-ipc.sock")
    const listener = Bun.listen({ unix: path, socket: { data: () => {} } })
    expect(await clearCodeServerLocks(root)).toEqual([])
    listener.stop(true)
  })

  test("a missing code-server directory is not an error", async () => {
    expect(await clearCodeServerLocks("/nonexistent")).toEqual([])
  })
})

test("the owner of a pid is the command that runs now", () => {
  expect(ownerOf(process.pid)).toContain("bun")
  expect(ownerOf(2 ** 22 + 1)).toBeUndefined()
})

/** A workspace goes to object storage and comes back in another sandbox: real files, real HTTP, checked signatures. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test"
import { chmod, readFile, rm, stat, symlink, truncate } from "node:fs/promises"
import { join } from "node:path"
import { type S3Server, startS3Server } from "../../../kit/s3-server.ts"
import { own, type SandboxWorkspace, type S3Place, startWorkspace } from "./kit.ts"
import { failureOf } from "../../../kit/failure-of.ts"

let s3: S3Server
let open: SandboxWorkspace[]
beforeEach(() => {
  s3 = startS3Server()
  open = []
})
afterEach(async () => {
  for (const workspace of open) await workspace.stop()
  await s3.stop()
})

const workspace = async (place: S3Place = s3, session?: string) => {
  const started = await startWorkspace(place, session)
  open.push(started)
  return started
}
const same = async (one: SandboxWorkspace, other: SandboxWorkspace) =>
  (await Bun.$`diff -r ${one.root} ${other.root}`.nothrow().quiet()).stdout.toString()
const stored = (key: string) => s3.objects.get(`sandboxes/session%20one/${key}`)
const manifest = () => JSON.parse(new TextDecoder().decode(stored("manifest.json")))

describe("the copy of a workspace in object storage", () => {
  test("a saved workspace is equal in the next sandbox, with modes, empty files and odd names", async () => {
    const first = await workspace()
    await first.put("a.txt", "alpha")
    await first.put("deep/ü #%?&+.txt", "beta")
    await first.put("empty", "")
    await first.put("run.sh", "#!/bin/sh\n")
    await chmod(join(first.root, "run.sh"), 0o755)
    await first.put("large.bin", Buffer.alloc(5 * 1024 * 1024, 7))
    expect(await first.copy.save()).toEqual({
      files: 5,
      uploaded: 5,
      bytes: 5 + 4 + 10 + 5 * 1024 * 1024,
      removed: 0,
      leftOut: 0,
    })
    const second = await workspace()
    expect(await second.copy.restore()).toBe(5)
    expect(await same(first, second)).toBe("")
    expect((await stat(join(second.root, "run.sh"))).mode & 0o777).toBe(0o755)
  })

  test("an unchanged workspace makes no call, and a changed or removed file only its own", async () => {
    const one = await workspace()
    for (const name of ["a", "b", "c"]) await one.put(name, `content of ${name}`)
    await one.copy.save()
    s3.calls.length = 0
    expect(await one.copy.save()).toMatchObject({ uploaded: 0, removed: 0 })
    expect(s3.calls).toEqual([])
    await one.put("a", "another content")
    await rm(join(one.root, "b"))
    expect(await one.copy.save()).toMatchObject({ files: 2, uploaded: 1, removed: 2 })
    const kinds = s3.calls.map((call) => call.replaceAll(/[0-9a-f]{64}/g, "hash"))
    expect(kinds).toEqual([
      "PUT sandboxes/session%20one/files/hash",
      "PUT sandboxes/session%20one/manifest.json",
      "DELETE sandboxes/session%20one/files/hash",
      "DELETE sandboxes/session%20one/files/hash",
    ])
    const next = await workspace()
    await next.copy.restore()
    expect(await same(one, next)).toBe("")
    s3.calls.length = 0
    // A sandbox that has restored knows what is stored.
    expect(await next.copy.save()).toMatchObject({ uploaded: 0, removed: 0 })
  })

  test("a look finds a file that was written, removed or made executable since the last save, and makes no call", async () => {
    const one = await workspace()
    expect(await one.copy.hasChanged()).toBe(true)
    await one.put("deep/below/a", "alpha")
    await one.put("b", "beta")
    const changes: readonly (() => Promise<unknown>)[] = [
      () => one.put("deep/below/a", "ALPHA"),
      () => rm(join(one.root, "b")),
      () => chmod(join(one.root, "deep/below/a"), 0o755),
    ]
    for (const change of changes) {
      await one.copy.save()
      s3.calls.length = 0
      expect(await one.copy.hasChanged()).toBe(false)
      await change()
      expect(await one.copy.hasChanged()).toBe(true)
      expect(s3.calls).toEqual([])
    }
  })

  test("files that exist in the new sandbox are not overwritten", async () => {
    const first = await workspace()
    await first.put("kept.txt", "saved")
    await first.put("missing.txt", "saved")
    await first.copy.save()
    const second = await workspace()
    await second.put("kept.txt", "newer")
    expect(await second.copy.restore()).toBe(1)
    expect(await readFile(join(second.root, "kept.txt"), "utf8")).toBe("newer")
    expect(await readFile(join(second.root, "missing.txt"), "utf8")).toBe("saved")
  })

  test("a save that is cut in the middle leaves the former state, which restores completely", async () => {
    const one = await workspace()
    for (let index = 0; index < 20; index += 1) await one.put(`f${index}`, `first ${index}`)
    await one.copy.save()
    const before = await workspace()
    await before.copy.restore()
    for (let index = 0; index < 20; index += 1) await one.put(`f${index}`, `second ${index}`)
    let left = 10
    s3.intercept = async (method) => {
      left -= 1
      return method === "PUT" && left < 0 ? new Response("", { status: 403 }) : undefined
    }
    expect(await failureOf(one.copy.save())).toContain("the object storage answered 403")
    s3.intercept = undefined
    const after = await workspace()
    await after.copy.restore()
    expect(await same(before, after)).toBe("")
    await one.copy.save()
    const last = await workspace()
    await last.copy.restore()
    expect(await same(one, last)).toBe("")
  })

  test("a service that fails for a moment is asked again, and a wrong secret is refused and named", async () => {
    const one = await workspace()
    await one.put("a", "alpha")
    let failures = 2
    s3.intercept = async () => {
      failures -= 1
      return failures >= 0 ? new Response("", { status: 503 }) : undefined
    }
    await one.copy.save()
    expect(manifest().files.length).toBe(1)
    const wrong = await workspace({
      ...s3,
      credentials: { ...s3.credentials, secretAccessKey: "wrong" },
    })
    await wrong.put("b", "beta")
    const failure = await failureOf(wrong.copy.save())
    expect(failure).toContain("403 (SignatureDoesNotMatch)")
    expect(failure).not.toContain("X-Amz")
    expect(manifest().files.map(({ path }: { path: string }) => path)).toEqual(["a"])
  })

  test("ignored, large and special files are left out and named in the manifest, and .git is saved", async () => {
    const one = await workspace()
    await one.put("repo/code.ts", "code")
    await one.put("repo/.gitignore", "node_modules/\n*.log\n")
    await one.put("repo/node_modules/dep/index.js", "dependency")
    await one.put("repo/debug.log", "log")
    await Bun.$`git init -q ${join(one.root, "repo")}`
    await one.put("large.bin", "")
    await truncate(join(one.root, "large.bin"), 100 * 1024 * 1024 + 1)
    await symlink("/etc/passwd", join(one.root, "link"))
    await Bun.$`mkfifo ${join(one.root, "pipe")}`
    await own(one.root)
    await one.copy.save()
    expect(manifest().leftOut).toEqual([
      { path: "large.bin", reason: "too large" },
      { path: "link", reason: "not a regular file" },
      { path: "pipe", reason: "not a regular file" },
      { path: "repo/debug.log", reason: "ignored" },
      { path: "repo/node_modules", reason: "ignored" },
    ])
    const paths = manifest().files.map(({ path }: { path: string }) => path)
    expect(paths).toContain("repo/code.ts")
    expect(paths).toContain("repo/.git/HEAD")
  })

  test("a stored file with another content is not written, and an attack in a path stays in the workspace", async () => {
    const one = await workspace()
    await one.put("a", "alpha")
    await one.copy.save()
    const [{ sha256 }] = manifest().files
    const key = `sandboxes/session%20one/files/${sha256}`
    s3.objects.set(key, new TextEncoder().encode("tampered"))
    const second = await workspace()
    expect(await failureOf(second.copy.restore())).toContain("409")
    expect(await Bun.file(join(second.root, "a")).exists()).toBe(false)
    s3.objects.set(key, new TextEncoder().encode("alpha"))
    const evil = { ...manifest(), files: [{ path: "../escaped", sha256, bytes: 5, mode: 0o644 }] }
    s3.objects.set(
      "sandboxes/session%20one/manifest.json",
      new TextEncoder().encode(JSON.stringify(evil)),
    )
    const third = await workspace()
    await third.copy.restore().catch(() => {})
    expect(await Bun.file(join(third.root, "../escaped")).exists()).toBe(false)
  })

  test("sessions have separate objects, and no request names another session", async () => {
    const one = await workspace()
    await one.put("a", "of one")
    await one.copy.save()
    const other = await workspace(s3, "session two")
    expect(await other.copy.restore()).toBe(0)
    await other.put("b", "of two")
    await other.copy.save()
    const keys = [...s3.objects.keys()]
    expect(keys.filter((key) => key.startsWith("sandboxes/session%20two/")).length).toBe(2)
    expect(keys.length).toBe(4)
  })

  /** Stores a state, then cuts the save of another one after some of its files. */
  const cutSave = async (one: SandboxWorkspace) => {
    for (let index = 0; index < 6; index += 1) await one.put(`f${index}`, `first ${index}`)
    await one.copy.save()
    for (let index = 0; index < 6; index += 1) await one.put(`f${index}`, `cut ${index}`)
    let left = 3
    s3.intercept = async (method) => {
      if (method === "PUT") left -= 1
      return left < 0 ? new Response("", { status: 403 }) : undefined
    }
    await failureOf(one.copy.save())
    s3.intercept = undefined
    expect(garbage().length).toBeGreaterThan(0)
  }
  const named = (): string[] => manifest().files.map(({ sha256 }: { sha256: string }) => sha256)
  const garbage = (): readonly string[] => {
    const wanted = new Set([
      "manifest.json",
      ...(stored("manifest.json") ? named() : []).map((sha256) => `files/${sha256}`),
    ])
    return [...s3.objects.keys()].filter(
      (key) => !wanted.has(key.replace("sandboxes/session%20one/", "")),
    )
  }
  const age = (ms: number) => {
    for (const [key, at] of s3.times) s3.times.set(key, at - ms)
  }
  const HOUR = 3_600_000

  test("the next save of a runner deletes the objects of its save that was cut", async () => {
    const one = await workspace()
    await cutSave(one)
    for (let index = 0; index < 6; index += 1) await one.put(`f${index}`, `last ${index}`)
    await one.copy.save()
    expect(garbage()).toEqual([])
    await cutSave(one)
    // Back to the stored contents: no new manifest is written, and the objects are deleted all the same.
    for (let index = 0; index < 6; index += 1) await one.put(`f${index}`, `first ${index}`)
    await one.copy.save()
    expect(garbage()).toEqual([])
  })

  test("the first save of a sandbox deletes the objects of a save that was cut with an earlier sandbox, page by page", async () => {
    await cutSave(await workspace())
    s3.pageSize = 2
    age(HOUR + 60_000)
    const next = await workspace()
    await next.copy.restore()
    await next.copy.save()
    expect(garbage()).toEqual([])
    expect(named().length).toBe(6)
    const last = await workspace()
    await last.copy.restore()
    expect(await same(next, last)).toBe("")
  })

  test("an object of the last hour is not swept, because another save may be sending it", async () => {
    await cutSave(await workspace())
    const young = garbage()
    age(HOUR - 60_000)
    const next = await workspace()
    await next.copy.restore()
    await next.copy.save()
    expect(garbage()).toEqual(young)
  })

  test("a save is complete when the storage cannot be listed", async () => {
    const one = await workspace()
    await one.put("a", "alpha")
    s3.intercept = async (_method, key) =>
      key === "" ? new Response("", { status: 403 }) : undefined
    expect(await one.copy.save()).toMatchObject({ uploaded: 1 })
    expect(named().length).toBe(1)
  })
})

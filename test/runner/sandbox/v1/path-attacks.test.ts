/**
 * Attacks on the paths of `/v1`: nothing outside the workspace is read or written, and nothing blocks the server. The tests share one
 * server; before each the workspace is empty and the directory beside it has one secret.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test"
import { linkSync, symlinkSync } from "node:fs"
import {
  chown,
  lchown,
  mkdir,
  readdir,
  readFile,
  readlink,
  rm,
  stat,
  writeFile,
} from "node:fs/promises"
import { join } from "node:path"
import { otherUser, startV1Stage, type V1Stage } from "./kit.ts"

let stage: V1Stage
const SECRET = "a secret outside the workspace"

beforeAll(async () => {
  stage = await startV1Stage()
})
beforeEach(async () => {
  for (const folder of [stage.root, stage.outside])
    for (const name of await readdir(folder)) await rm(join(folder, name), { recursive: true })
  await writeFile(join(stage.outside, "secret"), SECRET, { mode: 0o644 })
})
afterAll(() => stage.stop())

const own = async (name: string): Promise<string> => {
  const path = join(stage.root, name)
  if (otherUser) await lchown(path, otherUser.uid, otherUser.gid)
  return path
}
const at = (path: string): string => `path=${encodeURIComponent(path)}`
const read = (path: string) => stage.call("GET", `/v1/fs/file?${at(path)}`)
const write = (path: string, body = "written") =>
  stage.call("PUT", `/v1/fs/file?${at(path)}`, { body })
const post = (path: string, body: unknown) =>
  stage.call("POST", path, {
    body: JSON.stringify(body),
    headers: { "content-type": "application/json" },
  })

/** Every way to use a path; each must be refused or stay inside. */
const uses = (path: string): readonly (() => Promise<Response>)[] => [
  () => read(path),
  () => write(path),
  () => stage.call("GET", `/v1/fs/entries?${at(path)}`),
  () => stage.call("GET", `/v1/fs/stat?${at(`${path}/x`)}`),
  () => stage.call("POST", `/v1/fs/mkdir?${at(`${path}/made`)}`),
  () => stage.call("DELETE", `/v1/fs/entry?${at(`${path}/secret`)}&recursive=true`),
  () => post("/v1/fs/move", { from: `${path}/secret`, to: "stolen" }),
  () => post("/v1/fs/edit", { path, oldText: "secret", newText: "changed" }),
  () => post("/v1/processes/run", { command: "cat", args: ["secret"], cwd: path }),
  () => stage.call("GET", `/v1/fs/watch?${at(path)}`),
]

const isOutsideUntouched = async (): Promise<boolean> =>
  (await readdir(stage.outside)).join() === "secret" &&
  (await readFile(join(stage.outside, "secret"), "utf8")) === SECRET

describe("a path that leads out of the workspace", () => {
  const paths = () => [
    "..",
    "../outside",
    "a/../../outside",
    stage.outside,
    `${stage.root}/../outside`,
    `${stage.root}/..`,
    "/etc",
    "/proc/self/fd/0",
    "/proc/self/root/etc",
    "/dev/stdin",
    "%2e%2e/outside",
    "..\\outside",
    "\u0000",
    "x".repeat(300),
    "long/".repeat(1000),
  ]

  test("a path that leads out of the workspace is refused by every route", async () => {
    for (const path of paths()) {
      // A name that only looks like an escape is an ordinary missing file.
      for (const use of uses(path)) {
        const response = await use()
        if (response.ok) expect(["%2e%2e/outside", "..\\outside"]).toContain(path)
        else expect([400, 404, 409, 413]).toContain(response.status)
        await response.body?.cancel()
      }
    }
    expect(await isOutsideUntouched()).toBe(true)
  })

  test("a path that leads out of the workspace is refused in its encoded forms", async () => {
    for (const query of [
      "path=%2e%2e%2foutside%2fsecret",
      "path=..%2foutside%2fsecret",
      "path=a%2f..%2f..%2foutside%2fsecret",
      "path=%00",
      "path=a%00b",
    ]) {
      expect((await stage.call("GET", `/v1/fs/file?${query}`)).status).toBe(400)
    }
    for (const path of ["/v1/fs/../../etc", "/v1/fs/%2e%2e/x", "/v1/fs/..%2f..%2fetc/passwd"]) {
      const { status } = await stage.call("GET", path)
      expect([400, 404]).toContain(status)
    }
  })
})

describe("a symbolic link in the workspace", () => {
  test("a symbolic link in the workspace is followed by no route, as a file and as a directory", async () => {
    symlinkSync(stage.outside, join(stage.root, "exit"))
    symlinkSync(join(stage.outside, "secret"), join(stage.root, "exit-file"))
    symlinkSync("/proc/self/fd", join(stage.root, "descriptors"))
    await own("exit")
    await own("exit-file")
    for (const path of ["exit", "exit-file", "descriptors", "exit/secret", "descriptors/0"]) {
      for (const use of uses(path)) {
        const response = await use()
        expect(response.ok).toBe(false)
        expect(await response.text()).not.toContain(SECRET)
      }
    }
    expect(await isOutsideUntouched()).toBe(true)
  })

  test("a symbolic link in the workspace is listed as a link and deleted as a link", async () => {
    symlinkSync(stage.outside, join(stage.root, "exit"))
    await own("exit")
    const entries = await (await stage.call("GET", "/v1/fs/entries?path=.")).json()
    expect(entries).toContainEqual(expect.objectContaining({ name: "exit", special: "symlink" }))
    expect(await readlink(join(stage.root, "exit"))).toBe(stage.outside)
    expect((await stage.call("DELETE", "/v1/fs/entry?path=exit&recursive=true")).status).toBe(200)
    expect(await isOutsideUntouched()).toBe(true)
  })

  test("a symbolic link inside a directory that is deleted does not lead the deletion outside", async () => {
    await stage.call("POST", "/v1/fs/mkdir?path=doomed/deep")
    symlinkSync(stage.outside, join(stage.root, "doomed/deep/exit"))
    expect((await stage.call("DELETE", "/v1/fs/entry?path=doomed&recursive=true")).status).toBe(200)
    expect(await isOutsideUntouched()).toBe(true)
  })
})

describe("a file that is not a regular one", () => {
  test("a FIFO is refused at once, and other requests continue", async () => {
    await Bun.$`mkfifo -m 666 ${join(stage.root, "fifo")}`
    await own("fifo")
    for (const response of await Promise.all([
      read("fifo"),
      write("fifo"),
      post("/v1/fs/edit", { path: "fifo", oldText: "a", newText: "b" }),
    ])) {
      expect(response.status).toBe(400)
    }
    expect((await stage.call("GET", "/v1/fs/stat?path=fifo")).status).toBe(200)
    expect((await stage.call("GET", "/v1/fs/entries?path=.")).status).toBe(200)
  })

  test("a socket and a device are refused", async () => {
    const listener = Bun.listen({ unix: join(stage.root, "socket"), socket: { data: () => {} } })
    expect((await read("socket")).status).toBe(400)
    listener.stop(true)
    const made = await Bun.$`mknod -m 666 ${join(stage.root, "device")} c 1 5`.nothrow().quiet()
    if (made.exitCode === 0) {
      expect((await read("device")).status).toBe(400)
      expect((await write("device")).status).toBe(400)
    }
  })
})

describe("a hard link in the workspace", () => {
  test.skipIf(!otherUser)(
    "a hard link to a file of another user is not read, and a write leaves that file alone",
    async () => {
      linkSync(join(stage.outside, "secret"), join(stage.root, "hard"))
      const response = await read("hard")
      expect(response.status).toBe(403)
      expect(await response.text()).not.toContain(SECRET)
      expect((await post("/v1/fs/edit", { path: "hard", oldText: "a", newText: "b" })).status).toBe(
        403,
      )
      expect((await write("hard")).status).toBe(200)
      expect(await isOutsideUntouched()).toBe(true)
      expect((await stat(join(stage.outside, "secret"))).nlink).toBe(1)
    },
  )

  test.skipIf(!otherUser)(
    "files that the agent's user may not read stay closed, also for a root runner",
    async () => {
      await writeFile(join(stage.root, "private"), SECRET, { mode: 0o600 })
      expect((await read("private")).status).toBe(403)
      await mkdir(join(stage.root, "closed"), { mode: 0o700 })
      expect((await write("closed/file")).status).toBe(403)
    },
  )
})

test("a directory that is swapped for a link 10000 times leads no request outside", async () => {
  const place = join(stage.root, "swapped")
  symlinkSync(stage.outside, join(stage.root, "link"))
  await mkdir(place)
  await writeFile(join(place, "secret"), "the file inside")
  if (otherUser) {
    for (const name of ["swapped", "swapped/secret"]) {
      await chown(join(stage.root, name), otherUser.uid, otherUser.gid)
    }
  }
  let answered = 0
  let isOver = false
  /** Swaps 10,000 times, and again until enough requests have met a swap. */
  const swap = async () => {
    const words = [join(import.meta.dir, "swapper.ts"), place, join(stage.root, "link"), "10000"]
    do {
      const swapper = Bun.spawn([process.execPath, ...words], { stdout: "pipe" })
      expect(await new Response(swapper.stdout).text()).toBe("10000")
    } while (answered < 100)
    isOver = true
  }
  const attack = async (use: () => Promise<Response>) => {
    while (!isOver) {
      const text = await (await use()).text()
      expect(text).not.toContain(SECRET)
      answered += 1
    }
  }
  await Promise.all([
    swap(),
    attack(() => read("swapped/secret")),
    attack(() => write("swapped/new")),
    attack(() => stage.call("GET", "/v1/fs/entries?path=swapped")),
    attack(() => post("/v1/processes/run", { command: "cat", args: ["secret"], cwd: "swapped" })),
    attack(() => stage.call("POST", "/v1/fs/mkdir?path=swapped/made/deep")),
    attack(() => stage.call("DELETE", "/v1/fs/entry?path=swapped/secret")),
    attack(() => post("/v1/fs/move", { from: "swapped/secret", to: "stolen", overwrite: true })),
  ])
  expect(await isOutsideUntouched()).toBe(true)
})

describe("an archive", () => {
  const upload = (body: Uint8Array) =>
    stage.call("POST", "/v1/fs/upload-batch?path=unpacked", {
      body,
      headers: { "content-type": "application/x-tar" },
    })
  const tar = async (
    name: string,
    make: (directory: string) => Promise<unknown>,
    args: string[],
  ) => {
    const directory = join(stage.outside, "..", name)
    await mkdir(directory)
    await make(directory)
    return new Uint8Array(await Bun.$`tar -cf - -C ${directory} ${args}`.quiet().arrayBuffer())
  }

  test("an archive with a path that leads out, a link or a device is refused and changes nothing", async () => {
    const plant = (directory: string) => writeFile(join(directory, "file"), "planted")
    const archives = [
      await tar("t1", plant, ["--transform=s,file,../outside/file,", "-P", "file"]),
      await tar("t2", plant, [`--transform=s,file,${stage.outside}/file,`, "-P", "file"]),
      await tar("t3", (to) => Bun.$`ln -s ${stage.outside} ${to}/link; touch ${to}/a`, [
        "a",
        "link",
      ]),
      await tar("t4", (to) => Bun.$`touch ${to}/a; mkfifo ${to}/fifo`, ["a", "fifo"]),
      await tar("t5", (to) => Bun.$`touch ${to}/a; ln ${to}/a ${to}/b`, ["a", "b"]),
    ]
    for (const archive of archives) expect((await upload(archive)).status).toBe(400)
    expect(await isOutsideUntouched()).toBe(true)
    expect(await readdir(stage.root)).not.toContain("unpacked")
    expect((await readdir(stage.root)).filter((name) => name.startsWith(".sandpiper"))).toEqual([])
  })

  test("an archive that is cut short is refused and changes nothing", async () => {
    const archive = await tar("t6", (to) => writeFile(join(to, "big"), "x".repeat(5000)), ["big"])
    expect((await upload(archive.subarray(0, 2000))).status).toBe(400)
    expect(await readdir(stage.root)).not.toContain("unpacked")
  })
})

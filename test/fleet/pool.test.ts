/**
 * The warm pool with a real hub; its sandboxes are runners without an agent in this process. Each test has a hub and a pool of two
 * sandboxes of its own, which some of them start again with another version.
 */
import { afterEach, beforeEach, describe, expect, test } from "bun:test"
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { SignJWT } from "jose"
import { type ServeStack, startServeStack } from "../../src/cli/serve-stack.ts"
import { isReady } from "../../src/fleet/core/pool.ts"
import type { FleetStore } from "../../src/fleet/store/ports.ts"
import { openSqliteStore } from "../../src/fleet/store/sqlite-store.ts"
import { systemClock } from "../../src/lib/clock.ts"
import { startFakeRunner } from "../hub/kit/fake-runner.ts"
import { freePort } from "../kit/free-port.ts"
import { CLIENT_TOKEN } from "../hub/kit/hub.ts"
import { silentLog } from "../kit/log.ts"
import { untilTrue } from "../kit/until-true.ts"
import { runnerProvider, type RunnerProvider } from "./kit/runner-provider.ts"
import { startStack } from "./kit/stack.ts"

const JWT_SECRET = "a secret for the tokens of people"
const SIZE = 2
let folder = ""
let provider: RunnerProvider
/** What the runners of new sandboxes know. */
let accepts: readonly string[] = ["git-credentials"]
let store: FleetStore
let stack: ServeStack
/** The runners of running sandboxes connect to it again after a restart. */
let port = 0

const tokenOf = (sub: string, more: Readonly<Record<string, string>> = {}) =>
  new SignJWT({ scope: "sessions:admin", ...more })
    .setProtectedHeader({ alg: "HS256" })
    .setSubject(sub)
    .setExpirationTime("1h")
    .sign(new TextEncoder().encode(JWT_SECRET))

const start = (runtimeKey: string) =>
  startServeStack({
    provider,
    // The records outlive a restart of the fleet in these tests.
    store: { ...store, close: async () => {} },
    version: "0.2.0",
    idleMs: 900_000,
    pausedMs: undefined,
    minimumVersion: undefined,
    poolSize: SIZE,
    runtimeKey,
    configure: async (id, hub) => {
      hub.find(id)?.configure({ instructions: ["Be brief."], tools: { list_repos: false } })
    },
    hub: {
      stateDir: folder,
      workDir: folder,
      port,
      environment: {
        ANTHROPIC_API_KEY: "key-of-the-deployment",
        GITHUB_TOKEN: "token-of-the-operator",
        GITHUB_TOKENS: JSON.stringify({
          "user:carol": "token-of-carol",
          "user:hal": "token-of-hal",
          "org:sandpiper-pool": "token-of-the-pool",
        }),
        OP_SERVICE_ACCOUNT_TOKEN: "password-manager-of-the-operator",
      },
      clock: systemClock,
      log: silentLog,
      clientToken: CLIENT_TOKEN,
      jwt: { secret: JWT_SECRET },
    },
  })

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "fleet-pool-"))
  accepts = ["git-credentials"]
  port = freePort()
  provider = runnerProvider(() => accepts)
  store = openSqliteStore(":memory:")
  stack = await start("v1")
})
afterEach(async () => {
  await provider.stop()
  await stack.stop()
  await store.close()
  rmSync(folder, { recursive: true, force: true })
})

const call = async (method: string, path: string, token: string, body?: object) => {
  const response = await fetch(`${stack.hub.url}${path}`, {
    method,
    headers: { authorization: `Bearer ${token}` },
    ...(body && { body: JSON.stringify(body) }),
  })
  return {
    status: response.status,
    body: (await response.json()) as Readonly<Record<string, unknown>>,
  }
}
const poolIds = async () =>
  (await store.pooled()).flatMap(({ id, kind, life }) =>
    kind === "pool" && isReady(life) ? [id] : [],
  )
/** The runners have connected before their `hello` is handled, which says whether they take git credentials. */
const haveGreeted = (ids: readonly string[]) =>
  ids.every((id) => provider.runnerOf(id)?.frames.some(({ type }) => type === "init"))
const areTakers = (ids: readonly string[]) =>
  ids.every((id) => stack.hub.find(id)?.runner.git.isAccepted())
const isFull = () =>
  untilTrue(async () => {
    const ids = await poolIds()
    return ids.length === SIZE && haveGreeted(ids) && areTakers(ids)
  }, "a full pool")
const idsOf = async (token: string) => {
  const { body } = await call("GET", "/sessions", token)
  return (body["sessions"] as readonly { readonly id: string }[]).map(({ id }) => id)
}

describe("sandboxes that wait for a session", () => {
  test("as many as asked for are started, without a secret of an owner", async () => {
    await isFull()
    const specs = provider.specs.filter(({ session }) => session.startsWith("warm-"))
    expect(specs).toHaveLength(SIZE)
    for (const { environment, labels } of specs) {
      expect(labels.tenant).toBe("pool")
      expect(environment["ANTHROPIC_API_KEY"]).toBe("key-of-the-deployment")
      expect(Object.values(environment)).not.toContain("token-of-the-operator")
      expect(Object.values(environment)).not.toContain("token-of-carol")
    }
  })

  test("no person sees or reaches them, and they are in no list", async () => {
    await isFull()
    const [id] = await poolIds()
    const alice = await tokenOf("alice")
    // A person cannot have the org that owns them.
    const intruder = await tokenOf("mallory", { org: "sandpiper-pool" })
    for (const path of [`/sessions/${id}`, `/api/sandbox/${id}/status`]) {
      expect((await call("GET", path, alice)).status).toBe(404)
      expect((await call("GET", path, intruder)).status).toBe(401)
    }
    expect(await idsOf(alice)).toEqual([])
    expect(await idsOf(CLIENT_TOKEN)).toEqual([])
  })
})

describe("a claim", () => {
  test("the first prompt of a thread is answered by a waiting sandbox, which is its author's from then on", async () => {
    await isFull()
    const waiting = await poolIds()
    const alice = await tokenOf("alice")
    const before = provider.specs.length
    const { body } = await call("POST", "/api/threads/nest/prompt", alice, { message: "hello" })
    const id = String(body["sessionId"])
    expect(waiting).toContain(id)
    expect(body).toMatchObject({ status: "running", generation: 1 })
    await untilTrue(
      async () =>
        JSON.stringify((await call("GET", `/sessions/${id}`, alice)).body).includes("heard: hello"),
      "the answer",
    )
    expect(await idsOf(alice)).toEqual([id])
    const bob = await tokenOf("bob")
    expect((await call("GET", `/sessions/${id}`, bob)).status).toBe(404)
    expect(
      (await call("POST", "/api/threads/nest/prompt", alice, { message: "more" })).body,
    ).toMatchObject({ sessionId: id })
    // Another one takes its place.
    await isFull()
    expect(await poolIds()).not.toContain(id)
    expect(provider.specs.length - before).toBe(1)
  })

  test("a session that the page makes has a waiting sandbox, its owner and its creator, and answers in it", async () => {
    await isFull()
    const waiting = await poolIds()
    const dan = await tokenOf("dan")
    const config = { tools: { memory_read: false } }
    const made = await call("POST", "/sessions", dan, { title: "A nest", config })
    const id = String(made.body["session"])
    expect(made).toMatchObject({ status: 201, body: { owner: "user:dan" } })
    expect(waiting).toContain(id)
    expect(await store.find(id)).toMatchObject({ kind: "hub", tenant: "user:dan" })
    expect(stack.hub.hosted(id)?.access.creator()).toBe("dan")
    // The tools that the hub has switched stay so.
    const configs = () =>
      provider.runnerOf(id)?.frames.filter(({ type }) => type === "opencode-config")
    await untilTrue(async () => configs()?.length === 2, "the config of the new session")
    expect(configs()?.at(-1)).toMatchObject({
      config: { tools: { list_repos: false, memory_read: false } },
    })
    const before = provider.specs.length
    await call("POST", `/sessions/${id}/prompt`, dan, { channel: "web:default", content: "peep" })
    await untilTrue(
      async () =>
        JSON.stringify((await call("GET", `/sessions/${id}`, dan)).body).includes("heard: peep"),
      "the answer",
    )
    const ofOthers = provider.specs.slice(before).map(({ session }) => session)
    expect(ofOthers).not.toContain(id)
    expect(await idsOf(dan)).toEqual([id])
    const child = await call("POST", "/sessions", dan, { parent: id })
    expect(String(child.body["session"])).not.toStartWith("warm-")
    await isFull()
  })

  test("a session above the limit of its owner is refused, and the sandbox that was taken for it waits for another one", async () => {
    await isFull()
    const waiting = await poolIds()
    const fay = await tokenOf("fay")
    const settings = await stack.hub.directory.ownerSettings("user:fay")
    await stack.hub.directory.setOwnerSettings("user:fay", {
      ...settings,
      sessions: 0,
    })
    expect((await call("POST", "/sessions", fay, {})).status).toBe(429)
    expect(await idsOf(fay)).toEqual([])
    expect((await poolIds()).toSorted()).toEqual(waiting.toSorted())
    const { body } = await call("POST", "/sessions", await tokenOf("gus"), {})
    expect(waiting).toContain(String(body["session"]))
    await isFull()
  })

  test("two threads at the same time get different sandboxes", async () => {
    await isFull()
    const alice = await tokenOf("alice")
    const answers = await Promise.all(
      ["left", "right"].map((thread) => call("POST", `/api/threads/${thread}/resolve`, alice)),
    )
    const ids = answers.map(({ body }) => String(body["sessionId"]))
    expect(new Set(ids).size).toBe(2)
    expect(ids.every((id) => id.startsWith("warm-"))).toBe(true)
  })

  test("an owner with an account that no frame carries gets a sandbox that is started with it", async () => {
    await isFull()
    const { body } = await call("POST", "/api/threads/own/resolve?wait=1", CLIENT_TOKEN)
    const id = String(body["sessionId"])
    expect(id.startsWith("warm-")).toBe(false)
    const spec = provider.specs.find(({ session }) => session === id)
    expect(spec?.environment).toMatchObject({
      GITHUB_TOKEN: "token-of-the-operator",
      OP_SERVICE_ACCOUNT_TOKEN: "password-manager-of-the-operator",
    })
    expect(await poolIds()).toHaveLength(SIZE)
  })
})

describe("git tokens over the link", () => {
  const credentialsOf = (id: string) =>
    (provider.runnerOf(id)?.frames ?? []).filter(({ type }) => type === "git-credentials")
  const lastToken = (id: string) => {
    const last = credentialsOf(id).at(-1)
    return last?.type === "git-credentials" ? last.token : undefined
  }
  /** The sessions whose runners were ever sent this text. */
  const sentTo = (text: string) =>
    [...new Set(provider.specs.map(({ session }) => session))].filter((id) =>
      JSON.stringify(provider.runnerOf(id)?.frames ?? []).includes(text),
    )
  /** Resolves when the sandbox has the first prompt of carol's thread. */
  const claimForCarol = async () => {
    await isFull()
    const waiting = await poolIds()
    const carol = await tokenOf("carol")
    const { body } = await call("POST", "/api/threads/own/prompt", carol, { message: "fetch" })
    const mine = String(body["sessionId"])
    expect(waiting).toContain(mine)
    await untilTrue(() => provider.runnerOf(mine)?.prompts.length === 1, "the prompt")
    return mine
  }

  test("an owner with a git token gets a waiting sandbox, whose runner has the token before the first prompt", async () => {
    const mine = await claimForCarol()
    const frames = provider.runnerOf(mine)?.frames ?? []
    const [first, ...later] = credentialsOf(mine)
    // At its start the sandbox has no owner.
    expect(first).toEqual({ type: "git-credentials" })
    expect(later.at(-1)).toEqual({ type: "git-credentials", token: "token-of-carol" })
    const isToken = (frame: (typeof frames)[number]) =>
      frame.type === "git-credentials" && frame.token !== undefined
    expect(frames.findIndex(isToken)).toBeLessThan(
      frames.findIndex(({ type }) => type === "prompt"),
    )
    const spec = provider.specs.find(({ session }) => session === mine)
    expect(JSON.stringify(spec)).not.toContain("token-of-carol")
    expect(sentTo("token-of-carol")).toEqual([mine])
    // A name of GITHUB_TOKENS cannot be that of the pool.
    expect(sentTo("token-of-the-pool")).toEqual([])
  })

  test("a claimed sandbox gets its owner's token again after the runner or the hub was away, and the hub stores it nowhere", async () => {
    const mine = await claimForCarol()
    const before = credentialsOf(mine).length
    provider.runnerOf(mine)?.uplink.redial("test")
    await untilTrue(() => credentialsOf(mine).length > before, "the token")
    expect(lastToken(mine)).toBe("token-of-carol")
    const since = credentialsOf(mine).length
    await stack.stop()
    stack = await start("v1")
    await untilTrue(() => credentialsOf(mine).length > since, "the token")
    expect(lastToken(mine)).toBe("token-of-carol")
    const files = readdirSync(folder, { recursive: true, withFileTypes: true })
    const holders = files.filter(
      (file) =>
        file.isFile() && readFileSync(join(file.parentPath, file.name)).includes("token-of-carol"),
    )
    expect(holders.map(({ name }) => name)).toEqual([])
  })

  test("a sandbox that was taken for an owner and put back has none of its tokens", async () => {
    await isFull()
    const settings = await stack.hub.directory.ownerSettings("user:hal")
    await stack.hub.directory.setOwnerSettings("user:hal", { ...settings, sessions: 0 })
    const waiting = await poolIds()
    expect((await call("POST", "/sessions", await tokenOf("hal"), {})).status).toBe(429)
    expect((await poolIds()).toSorted()).toEqual(waiting.toSorted())
    const { body } = await call("POST", "/sessions", await tokenOf("ida"), {})
    expect(waiting).toContain(String(body["session"]))
    expect(sentTo("token-of-hal")).toEqual([])
  })

  test("a runner that another program has started does not get the owner's token", async () => {
    const carol = await tokenOf("carol")
    const runnerToken = "runner-token-of-the-program"
    const made = await call("POST", "/sessions", carol, { runnerToken })
    expect(made).toMatchObject({ status: 201, body: { owner: "user:carol" } })
    const id = String(made.body["session"])
    const runner = startFakeRunner({
      url: stack.hub.runnerUrl(id),
      token: runnerToken,
      stateDir: join(folder, "other-runner"),
      answer: () => ["done"],
      eager: true,
      accepts: ["git-credentials"],
    })
    const prompt = { channel: "web:default", content: "hi" }
    expect((await call("POST", `/sessions/${id}/prompt`, carol, prompt)).status).toBe(200)
    await untilTrue(() => runner.prompts.length === 1, "the prompt")
    expect(runner.frames.map(({ type }) => type)).not.toContain("git-credentials")
    await runner.stop()
  })
})

describe("after a crash", () => {
  test("a claim that the hub was not told of is completed, and no other session gets the sandbox", async () => {
    await isFull()
    const key = (await store.pooled())[0]?.poolKey ?? ""
    const to = { tenant: "user:dora", threadKey: "half" }
    const claimed = await store.claim(key, to, Date.now())
    const id = claimed?.id ?? ""
    await stack.stop()
    stack = await start("v1")
    const dora = await tokenOf("dora")
    const { body } = await call("POST", "/api/threads/half/resolve", dora)
    expect(body).toMatchObject({ sessionId: id })
    expect(await store.find(id)).toMatchObject({ kind: "hub", tenant: "user:dora" })
    expect((await call("GET", `/sessions/${id}`, dora)).status).toBe(200)
    expect(stack.hub.find(id)?.config()).toMatchObject({ instructions: ["Be brief."] })
  })

  test("the pool completes such a claim also if the thread is never used again", async () => {
    await isFull()
    const key = (await store.pooled())[0]?.poolKey ?? ""
    const claimed = await store.claim(key, { tenant: "user:emil", threadKey: "x" }, Date.now())
    const id = claimed?.id ?? ""
    await stack.pool.round()
    expect(await store.find(id)).toMatchObject({ kind: "hub", tenant: "user:emil" })
    const later = (await store.find(id))?.life.idleAt ?? Infinity
    expect(later).toBeLessThanOrEqual(Date.now() + 900_000)
    expect((await call("GET", `/sessions/${id}`, await tokenOf("emil"))).status).toBe(200)
  })

  test("the sessions of before a restart have the owner and the config that they were handed over with", async () => {
    const alice = await tokenOf("alice")
    for (const thread of ["nest", "left", "right"]) {
      await isFull()
      await call("POST", `/api/threads/${thread}/resolve`, alice)
    }
    await stack.stop()
    stack = await start("v1")
    const ids = await idsOf(alice)
    expect(ids).toHaveLength(3)
    for (const id of ids)
      expect(stack.hub.find(id)?.config()).toMatchObject({ instructions: ["Be brief."] })
  })
})

describe("a new version", () => {
  test("sandboxes of the version before are ended and replaced, those of sessions stay", async () => {
    await isFull()
    const alice = await tokenOf("alice")
    await call("POST", "/api/threads/nest/resolve", alice)
    await isFull()
    const old = await poolIds()
    const mine = await idsOf(alice)
    await stack.stop()
    stack = await start("v2")
    await untilTrue(async () => {
      const now = await store.pooled()
      return now.every(({ id }) => !old.includes(id)) && (await poolIds()).length === SIZE
    }, "a pool of the new version")
    expect(provider.removedVolumes.toSorted()).toEqual(
      old.map((id) => `workspace-${id}`).toSorted(),
    )
    expect(mine).toHaveLength(1)
    for (const id of mine) expect((await store.find(id))?.life.phase).toBe("running")
    for (const id of old) expect(provider.runnerOf(id)).toBeUndefined()
  })

  test("a sandbox whose runner does not know the frame is not claimed for an owner with a git token", async () => {
    await isFull()
    accepts = []
    const newer = await poolIds()
    await stack.stop()
    stack = await start("v3")
    await untilTrue(async () => {
      const ids = await poolIds()
      return ids.length === SIZE && ids.every((id) => !newer.includes(id)) && haveGreeted(ids)
    }, "a pool of old runners")
    const carol = await tokenOf("carol")
    const { body } = await call("POST", "/api/threads/cold/resolve?wait=1", carol)
    const id = String(body["sessionId"])
    expect(id).not.toStartWith("warm-")
    const spec = provider.specs.find(({ session }) => session === id)
    expect(spec?.environment["GITHUB_TOKEN"]).toBe("token-of-carol")
    expect(await poolIds()).toHaveLength(SIZE)
    const other = await call("POST", "/api/threads/warm/resolve", await tokenOf("jon"))
    expect(String(other.body["sessionId"])).toStartWith("warm-")
  })
})

test("a thread whose record was deleted goes on in its own session, although a sandbox waits in the pool", async () => {
  const own = mkdtempSync(join(tmpdir(), "fleet-pool-forgotten-"))
  const records = openSqliteStore(":memory:")
  const sandboxes = runnerProvider()
  const startWith = (poolSize: number) =>
    startStack(own, {
      provider: sandboxes,
      store: { ...records, close: async () => {} },
      poolSize,
    })
  const ask = async ({ hub }: ServeStack, method: string, path: string) => {
    const headers = { authorization: `Bearer ${CLIENT_TOKEN}` }
    const response = await fetch(`${hub.url}${path}`, { method, headers })
    return (await response.json()) as Readonly<Record<string, unknown>>
  }
  const first = await startWith(0)
  const { sessionId } = await ask(first, "POST", "/api/threads/kept/resolve?wait=1")
  await first.stop()
  const second = await startWith(1)
  await untilTrue(
    async () => (await records.pooled()).some(({ life }) => isReady(life)),
    "a sandbox in the pool",
  )
  await ask(second, "DELETE", `/api/sandbox/${String(sessionId)}`)
  const again = await ask(second, "POST", "/api/threads/kept/resolve?wait=1")
  expect(again).toMatchObject({ sessionId, status: "running", generation: 2 })
  const other = await ask(second, "POST", "/api/threads/new/resolve?wait=1")
  expect(String(other["sessionId"])).toStartWith("warm-")
  await sandboxes.stop()
  await second.stop()
  await records.close()
  rmSync(own, { recursive: true, force: true })
})

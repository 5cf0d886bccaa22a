/** The page where the hub serves it itself: files, login and the way to the API. Every host with a page runs these tests. */
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "bun:test"
import { tokenOf } from "./kit/owners.ts"

export interface PageHost {
  /** Where the server listens, on loopback. */
  readonly url: string
  /** Where the page is, as the browser names it. */
  readonly pageOrigin: string
  readonly clientToken: string
  readonly stop: () => Promise<void>
}

interface Login {
  readonly cookie: string
  readonly key: string
}

export const testPageDoor = (name: string, start: () => Promise<PageHost>): void => {
  let host: PageHost
  beforeAll(async () => {
    host = await start()
    await api("PUT", "/sessions/s1", { title: "First" })
  })
  afterAll(() => host.stop())

  const api = (method: string, path: string, body: object, token = host.clientToken) =>
    fetch(`${host.url}${path}`, {
      // A server may close a connection after a request whose body it did not read.
      keepalive: false,
      method,
      headers: { Authorization: `Bearer ${token}` },
      body: JSON.stringify(body),
    })
  /** A request of a browser: the connection goes to loopback, the host is the page's. */
  const browse = (
    path: string,
    init: Omit<RequestInit, "headers"> & { headers?: Record<string, string> } = {},
  ) =>
    fetch(`${host.url}${path}`, {
      redirect: "manual",
      keepalive: false,
      ...init,
      headers: { Host: new URL(host.pageOrigin).host, ...init.headers },
    })
  const postLogin = (body: object) =>
    browse("/login", {
      method: "POST",
      headers: { "content-type": "application/json", Origin: host.pageOrigin },
      body: JSON.stringify(body),
    })
  const postCode = (code: string) => postLogin({ code })
  const newCode = async (): Promise<string> => {
    const response = await api("POST", "/login-links", {})
    expect(response.status).toBe(201)
    const { url } = (await response.json()) as { url: string }
    expect(url.startsWith(`${host.pageOrigin}/#login=`)).toBeTrue()
    return url.slice(url.indexOf("=") + 1)
  }
  const logIn = async (): Promise<Login> => {
    return loginOf(await postCode(await newCode()))
  }
  const loginOf = async (response: Response): Promise<Login> => {
    expect(response.status).toBe(200)
    const { key } = (await response.json()) as { key: string }
    return { key, cookie: /^[^;]+/.exec(response.headers.get("set-cookie") ?? "")?.[0] ?? "" }
  }
  const headersOf = ({ cookie, key }: Login) => ({ Cookie: cookie, "x-sandpiper-key": key })

  /** A session of its own for an owner. */
  const newSession = async (owner: string): Promise<string> => {
    const id = `p-${crypto.randomUUID()}`
    expect((await api("PUT", `/sessions/${id}`, { owner, title: "Own" })).status).toBe(201)
    return id
  }
  const made = async (path: string, body: object): Promise<Record<string, unknown>> => {
    const response = await api("POST", path, body)
    expect(response.status).toBe(201)
    return (await response.json()) as Record<string, unknown>
  }
  const rename = (login: Login, session: string) =>
    browse(`/hub/sessions/${session}/rename`, {
      method: "POST",
      headers: { ...headersOf(login), Origin: host.pageOrigin, "content-type": "application/json" },
      body: JSON.stringify({ title: "Renamed" }),
    })
  const listFor = async (login: Login) => {
    const response = await browse("/hub/sessions", { headers: headersOf(login) })
    const { sessions = [] } = (await response.json()) as { sessions?: { id: string }[] }
    return { status: response.status, ids: sessions.map(({ id }) => id) }
  }

  describe(name, () => {
    test("the document has the page's policy, and its files are kept by their hash", async () => {
      const page = await browse("/")
      expect(page.status).toBe(200)
      const policy = page.headers.get("content-security-policy") ?? ""
      for (const part of ["script-src 'self'", "frame-ancestors 'none'", "connect-src 'self'"])
        expect(policy).toContain(part)
      expect(page.headers.get("x-content-type-options")).toBe("nosniff")
      const script = /src="(\/assets\/[^"]+\.js)"/.exec(await page.text())?.[1] ?? ""
      const asset = await browse(script)
      expect(asset.headers.get("content-type")).toContain("javascript")
      expect(asset.headers.get("cache-control")).toContain("immutable")
      const etag = asset.headers.get("etag") ?? ""
      const again = await browse(script, { headers: { "if-none-match": etag } })
      expect([etag !== "", again.status]).toEqual([true, 304])
      expect((await browse("/c/s1/web:default")).status).toBe(200)
      for (const path of ["/assets/missing.js", "/terminal/", "/missing.svg"])
        expect([path, (await browse(path)).status]).toEqual([path, 404])
    })

    test("a code logs in once, and the cookie has the page's path and no script can read it", async () => {
      const code = await newCode()
      const [first, second] = [await postCode(code), await postCode(code)]
      expect([first.status, second.status]).toEqual([200, 401])
      const cookie = first.headers.get("set-cookie") ?? ""
      for (const part of ["Path=/hub", "HttpOnly", "SameSite=Strict"])
        expect(cookie).toContain(part)
      expect((await postCode("wrong")).status).toBe(401)
      expect((await api("POST", "/login-links", {}, "wrong")).status).toBe(401)
    })

    test("the API needs the cookie and the key of one login, and a request of the page itself", async () => {
      const login = await logIn()
      const other = await logIn()
      const status = async (headers: Record<string, string>) =>
        (await browse("/hub/sessions", { headers })).status
      expect(await status({})).toBe(401)
      expect(await status({ Cookie: login.cookie })).toBe(401)
      expect(await status({ "x-sandpiper-key": login.key })).toBe(401)
      expect(await status(headersOf({ ...login, key: other.key }))).toBe(401)
      expect(await status({ Authorization: `Bearer ${host.clientToken}` })).toBe(401)
      expect(await status(headersOf(login))).toBe(200)
      for (const foreign of [{ Origin: "http://evil.example" }, { "Sec-Fetch-Site": "same-site" }])
        expect(await status({ ...headersOf(login), ...foreign })).toBe(403)
      const own = { Origin: host.pageOrigin, "Sec-Fetch-Site": "same-origin" }
      expect(await status({ ...headersOf(login), ...own })).toBe(200)
      const list = await browse("/hub/sessions?token=wrong", { headers: headersOf(login) })
      const { ok, sessions } = (await list.json()) as { ok: boolean; sessions: { id: string }[] }
      // Other tests have sessions in the same list.
      expect({ ok, sessions: sessions.filter(({ id }) => id === "s1") }).toMatchObject({
        ok: true,
        sessions: [{ id: "s1" }],
      })
    })

    test("cookies that a page of another host has set for the page's paths lock nobody out", async () => {
      const operator = await logIn()
      const token = await tokenOf(`grace-${crypto.randomUUID()}`)
      const person = await loginOf(await postLogin({ token }))
      // Browsers send the cookie with the longer path first.
      const tossed = Array.from({ length: 150 }, (_, index) => {
        const value = index.toString(16).padStart(index % 2 === 0 ? 64 : 43, "0")
        return `sandpiper_page=${index % 3 === 0 ? `junk-${index}` : value}`
      }).join("; ")
      for (const { cookie, key } of [operator, person]) {
        const headers = headersOf({ cookie: `${tossed}; ${cookie}`, key })
        expect((await browse("/hub/sessions", { headers })).status).toBe(200)
      }
      const headers = headersOf({ cookie: tossed, key: operator.key })
      expect((await browse("/hub/sessions", { headers })).status).toBe(401)
    })

    test("a WebSocket with the login reads the session, and one without is refused", async () => {
      const { cookie, key } = await logIn()
      const dial = (protocols: readonly string[]) => {
        const socket = new WebSocket(
          `${host.url.replace(/^http/, "ws")}/hub/sessions/s1/ws?role=client`,
          {
            protocols: [...protocols],
            headers: { Cookie: cookie, Host: new URL(host.pageOrigin).host },
          },
        )
        const received = Promise.withResolvers<string>()
        socket.addEventListener("open", () => socket.send('{"type":"subscribe"}'))
        socket.addEventListener("message", ({ data }) => {
          received.resolve(`${socket.protocol} ${JSON.parse(String(data)).type}`)
          socket.close()
        })
        socket.addEventListener("close", () => received.resolve("refused"))
        socket.addEventListener("error", () => received.resolve("refused"))
        return received.promise
      }
      expect(await dial(["sandpiper.1", `key.${key}`])).toBe("sandpiper.1 snapshot")
      expect(await dial(["sandpiper.1", "key.wrong"])).toBe("refused")
      expect(await dial(["sandpiper.1"])).toBe("refused")
    })

    test("what is written through the page is there for another client, and logging out ends every login", async () => {
      const login = await logIn()
      const renamed = await browse("/hub/sessions/s1/rename", {
        method: "POST",
        headers: {
          ...headersOf(login),
          Origin: host.pageOrigin,
          "content-type": "application/json",
        },
        body: JSON.stringify({ title: "By the page" }),
      })
      expect(renamed.status).toBe(200)
      const snapshot = await fetch(`${host.url}/sessions/s1`, {
        headers: { Authorization: `Bearer ${host.clientToken}` },
      })
      expect(await snapshot.json()).toMatchObject({ state: { title: "By the page" } })
      const other = await logIn()
      const out = await browse("/hub/logout", {
        method: "POST",
        headers: { ...headersOf(login), Origin: host.pageOrigin },
      })
      expect(out.status).toBe(200)
      for (const ended of [login, other])
        expect((await browse("/hub/sessions", { headers: headersOf(ended) })).status).toBe(401)
    })

    test("an API key logs in with its own rights, on its owner's sessions, until it is revoked", async () => {
      const [alice, bob] = [`user:alice-${crypto.randomUUID()}`, `user:bob-${crypto.randomUUID()}`]
      const [hers, his] = [await newSession(alice), await newSession(bob)]
      const { key: token, row } = (await made(`/keys?owner=${alice}`, {
        scopes: ["sessions:read"],
      })) as { key: string; row: { prefix: string } }
      expect(await (await browse("/login")).json()).toEqual({ tokens: true })
      const login = await loginOf(await postLogin({ token }))
      expect(await listFor(login)).toEqual({ status: 200, ids: [hers] })
      const read = (id: string) => browse(`/hub/sessions/${id}`, { headers: headersOf(login) })
      expect([(await read(hers)).status, (await read(his)).status]).toEqual([200, 404])
      expect((await rename(login, hers)).status).toBe(403)
      expect((await api("DELETE", `/keys/${row.prefix}?owner=${alice}`, {})).status).toBe(200)
      expect((await listFor(login)).status).toBe(401)
      expect((await postLogin({ token })).status).toBe(401)
    })

    test("a JWT logs in its person, and a wrong or expired one does not", async () => {
      const sub = `carol-${crypto.randomUUID()}`
      const hers = await newSession(`user:${sub}`)
      const login = await loginOf(await postLogin({ token: await tokenOf(sub) }))
      expect(await listFor(login)).toEqual({ status: 200, ids: [hers] })
      expect((await rename(login, hers)).status).toBe(200)
      const forged = await tokenOf(sub, { secret: "another-secret-of-more-than-32-bytes" })
      const expired = await tokenOf(sub, { seconds: -60 })
      for (const token of [forged, expired, "x"])
        expect((await postLogin({ token })).status).toBe(401)
    })

    test("a share link logs in to its session with its role, and to no other", async () => {
      const id = await newSession("user:dan")
      const other = await newSession("user:dan")
      const share = async (role: string) =>
        (await made(`/sessions/${id}/share-links`, { role })) as {
          token: string
          link: { id: string }
        }
      const [viewer, editor] = [await share("viewer"), await share("editor")]
      for (const session of [undefined, other])
        expect((await postLogin({ token: viewer.token, session })).status).toBe(401)
      const reads = await loginOf(await postLogin({ token: viewer.token, session: id }))
      const writes = await loginOf(await postLogin({ token: editor.token, session: id }))
      expect(await listFor(reads)).toEqual({ status: 200, ids: [id] })
      expect((await rename(reads, id)).status).toBe(403)
      expect((await rename(writes, id)).status).toBe(200)
      const read = async (path: string) =>
        (await browse(path, { headers: headersOf(writes) })).status
      expect(await read(`/hub/sessions/${other}`)).toBe(403)
      expect(await read("/hub/keys")).toBe(403)
      await api("DELETE", `/sessions/${id}/share-links/${editor.link.id}`, {})
      expect(await read(`/hub/sessions/${id}`)).toBe(401)
      expect((await listFor(reads)).status).toBe(200)
    })

    test("a client learns which verbs its login may use", async () => {
      const id = await newSession("user:eve")
      const { token } = (await made(`/sessions/${id}/share-links`, { role: "viewer" })) as {
        token: string
      }
      const { cookie, key } = await loginOf(await postLogin({ token, session: id }))
      const first = Promise.withResolvers<{ type: string; verbs: readonly string[] }>()
      const socket = new WebSocket(
        `${host.url.replace(/^http/, "ws")}/hub/sessions/${id}/ws?role=client`,
        {
          protocols: ["sandpiper.1", `key.${key}`],
          headers: { Cookie: cookie, Host: new URL(host.pageOrigin).host },
        },
      )
      socket.addEventListener("open", () => socket.send('{"type":"subscribe","access":true}'))
      socket.addEventListener("message", ({ data }) => first.resolve(JSON.parse(String(data))))
      const { type, verbs } = await first.promise
      socket.close()
      expect(type).toBe("access")
      expect(verbs).toContain("history")
      for (const verb of ["prompt", "answer", "config", "end"]) expect(verbs).not.toContain(verb)
    })

    test("logging out with a token ends the logins of that token and no others", async () => {
      const id = await newSession("user:frank")
      const { token } = (await made(`/sessions/${id}/share-links`, { role: "viewer" })) as {
        token: string
      }
      const operator = await logIn()
      const [one, two] = [
        await loginOf(await postLogin({ token, session: id })),
        await loginOf(await postLogin({ token, session: id })),
      ]
      const out = await browse("/hub/logout", {
        method: "POST",
        headers: { ...headersOf(one), Origin: host.pageOrigin },
      })
      expect(out.status).toBe(200)
      for (const ended of [one, two]) expect((await listFor(ended)).status).toBe(401)
      expect((await listFor(operator)).status).toBe(200)
    })

    test("too many wrong codes and tokens at the login are answered with 429, while a right code and a right token log in", async () => {
      // A host of its own: wrong secrets of one address add up.
      const shared = host
      host = await start()
      onTestFinished(async () => {
        await host.stop()
        host = shared
      })
      const code = await newCode()
      const statusesOf = async (body: object) => {
        const statuses = new Set<number>()
        for (let sent = 0; sent < 60; sent += 1) {
          const response = await postLogin(body)
          await response.arrayBuffer()
          if (response.status === 429) expect(response.headers.get("retry-after")).not.toBeNull()
          statuses.add(response.status)
        }
        return [...statuses]
      }
      expect(await statusesOf({ code: "A".repeat(43) })).toEqual([401, 429])
      expect(await statusesOf({ token: `spk_${"0".repeat(12)}_${"A".repeat(43)}` })).toContain(429)
      expect((await postCode(code)).status).toBe(200)
      expect((await postLogin({ token: await tokenOf("dora") })).status).toBe(200)
    })
  })
}

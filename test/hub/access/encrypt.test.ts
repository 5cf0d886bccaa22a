/** Secrets at rest: round trips, rotation, and values that were changed, cut or moved. */
import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import {
  EncryptionError,
  isEncrypted,
  readKeyring,
  type SecretPlace,
} from "../../../src/hub/access/encrypt.ts"

const seed = Date.now() % 2 ** 31
const keyText = (fill: number) => Buffer.alloc(32, fill).toString("base64")
const place: SecretPlace = { owner: "user:alice", session: "s1", field: "config" }
const one = await readKeyring(`a:${keyText(1)}`)

const problemOf = async (work: Promise<unknown>): Promise<string> => {
  try {
    await work
    return "none"
  } catch (error) {
    return error instanceof EncryptionError ? error.problem : String(error)
  }
}

const messageOf = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => "",
    (error: unknown) => (error instanceof Error ? error.message : ""),
  )

const text = fc.string({ unit: "binary", maxLength: 300 }).filter((made) => made.isWellFormed())

describe("an encrypted secret", () => {
  test(`every text comes back from its own place (seed ${seed})`, async () => {
    await fc.assert(
      fc.asyncProperty(text, async (secret) => {
        const stored = await one.encrypt(place, secret)
        return isEncrypted(stored) && (await one.decrypt(place, stored)) === secret
      }),
      { seed },
    )
  })
  test("the stored value names its key, contains no secret and differs every time", async () => {
    const secret = "sk-provider-key-0123456789"
    const stored = await one.encrypt(place, secret)
    expect(stored).toStartWith("enc1.a.")
    expect(stored).not.toContain(secret)
    expect(stored).not.toContain(Buffer.from(secret).toString("base64url").slice(4, 20))
    expect(await one.encrypt(place, secret)).not.toBe(stored)
  })
  test("a large value is encrypted whole", async () => {
    const secret = "ü".repeat(500_000)
    expect(await one.decrypt(place, await one.encrypt(place, secret))).toBe(secret)
  })
  test(`a value moved to another owner, session or field does not decrypt (seed ${seed})`, async () => {
    const name = fc.string({ maxLength: 8 })
    const anyPlace = fc.record({ owner: name, session: name, field: name })
    await fc.assert(
      fc.asyncProperty(anyPlace, anyPlace, async (from, to) => {
        fc.pre(JSON.stringify(from) !== JSON.stringify(to))
        const stored = await one.encrypt(from, "secret")
        return (await problemOf(one.decrypt(to, stored))) === "not-authentic"
      }),
      { seed },
    )
  })
  test("names that contain separators do not make two places one", async () => {
    const stored = await one.encrypt({ owner: 'a","b', session: "c", field: "d" }, "x")
    expect(await problemOf(one.decrypt({ owner: "a", session: 'b","c', field: "d" }, stored))).toBe(
      "not-authentic",
    )
  })
  test(`a value with one changed bit does not decrypt (seed ${seed})`, async () => {
    const stored = await one.encrypt(place, "a secret")
    const [version = "", id = "", nonce = "", sealed = ""] = stored.split(".")
    const flip = (part: string, at: number) => {
      const bytes = Buffer.from(part, "base64url")
      const index = at % (bytes.length * 8)
      bytes.writeUInt8(bytes.readUInt8(index >> 3) ^ (1 << (index & 7)), index >> 3)
      return bytes.toString("base64url")
    }
    await fc.assert(
      fc.asyncProperty(fc.nat(), fc.boolean(), async (at, inNonce) => {
        const changed = [
          version,
          id,
          inNonce ? flip(nonce, at) : nonce,
          inNonce ? sealed : flip(sealed, at),
        ].join(".")
        return (await problemOf(one.decrypt(place, changed))) === "not-authentic"
      }),
      { seed },
    )
  })
  test("a truncated tag does not decrypt", async () => {
    const stored = await one.encrypt(place, "a secret")
    const [version = "", id = "", nonce = "", sealed = ""] = stored.split(".")
    const bytes = Buffer.from(sealed, "base64url")
    for (let cut = 1; cut <= bytes.length; cut += 1) {
      const shorter = bytes.subarray(0, bytes.length - cut).toString("base64url")
      const problem = await problemOf(one.decrypt(place, [version, id, nonce, shorter].join(".")))
      expect(["not-authentic", "malformed"]).toContain(problem)
    }
  })
  test("text that was never encrypted is reported as malformed", async () => {
    for (const stored of ["", "{}", "enc1", "enc1.a.b", "enc2.a.b.c", "enc1.a.!.!", "enc1.a...."]) {
      expect(await problemOf(one.decrypt(place, stored))).toBe("malformed")
    }
    expect(isEncrypted('{"providerKeys":{}}')).toBeFalse()
  })
  test("the values of two keys are not exchangeable under one id", async () => {
    const other = await readKeyring(`a:${keyText(2)}`)
    const stored = await other.encrypt(place, "x")
    expect(await problemOf(one.decrypt(place, stored))).toBe("not-authentic")
  })
})

describe("rotation of keys", () => {
  test("the first key writes, and values of later keys stay readable until they are encrypted again", async () => {
    const before = await readKeyring(`old:${keyText(1)}`)
    const stored = await before.encrypt(place, "secret")
    const both = await readKeyring(`new:${keyText(2)}, old:${keyText(1)}`)
    expect(stored).toStartWith("enc1.old.")
    expect(await both.decrypt(place, stored)).toBe("secret")
    const rotated = await both.encrypt(place, "secret")
    expect(rotated).toStartWith("enc1.new.")
    expect(await both.decrypt(place, rotated)).toBe("secret")
    const after = await readKeyring(`new:${keyText(2)}`)
    expect(await after.decrypt(place, rotated)).toBe("secret")
    expect(await problemOf(after.decrypt(place, stored))).toBe("unknown-key")
  })
  test("a key without an id can get one later", async () => {
    const bare = await readKeyring(keyText(1))
    const stored = await bare.encrypt(place, "secret")
    const named = await readKeyring(`2026:${keyText(2)},first:${keyText(1)}`)
    expect(await named.decrypt(place, stored)).toBe("secret")
    const samekey = await readKeyring(`first:${keyText(1)}`)
    expect(await samekey.decrypt(place, stored)).toBe("secret")
  })
  test("a moved value of an older key is refused too", async () => {
    const both = await readKeyring(`new:${keyText(2)},a:${keyText(1)}`)
    const stored = await one.encrypt(place, "secret")
    expect(await problemOf(both.decrypt({ ...place, session: "s2" }, stored))).toBe("not-authentic")
  })
  test("the error for an unknown key names the key id and what to do", async () => {
    const stored = await one.encrypt(place, "secret")
    const other = await readKeyring(`b:${keyText(2)}`)
    expect(await messageOf(other.decrypt(place, stored))).toContain(
      "encrypted with the key a, which HUB_ENCRYPTION_KEY does not contain",
    )
  })
})

describe("HUB_ENCRYPTION_KEY", () => {
  test("a key that is not 32 bytes of base64 is refused without being quoted", async () => {
    const secret = "not-a-key-but-secret"
    for (const wrong of [
      "",
      secret,
      `id:${secret}`,
      `${keyText(1)},`,
      `bad id:${keyText(1)}`,
      `:${keyText(1)}`,
      Buffer.alloc(31).toString("base64"),
      Buffer.alloc(33).toString("hex"),
    ]) {
      expect(await problemOf(readKeyring(wrong))).toBe("bad-key")
      const message = await messageOf(readKeyring(wrong))
      expect(message).toMatch(/key \d is not 32 bytes of base64/)
      expect(message).not.toContain(secret)
    }
  })
  test("an id that two keys use is refused", async () => {
    expect(await problemOf(readKeyring(`a:${keyText(1)},a:${keyText(2)}`))).toBe("bad-key")
    expect(await problemOf(readKeyring(`${keyText(1)},${keyText(1)}`))).toBe("bad-key")
  })
  test("base64url and missing padding are accepted", async () => {
    const bytes = Buffer.alloc(32, 0xfb)
    const standard = await readKeyring(`a:${bytes.toString("base64")}`)
    const url = await readKeyring(`a:${bytes.toString("base64url")}`)
    expect(await url.decrypt(place, await standard.encrypt(place, "x"))).toBe("x")
  })
})

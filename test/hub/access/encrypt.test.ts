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
const one = readKeyring(`a:${keyText(1)}`)

const errorOf = (work: () => unknown): unknown => {
  try {
    work()
    return undefined
  } catch (error) {
    return error
  }
}

const problemOf = (work: () => unknown): string => {
  const error = errorOf(work)
  if (error === undefined) return "none"
  return error instanceof EncryptionError ? error.problem : "another error"
}

const messageOf = (work: () => unknown): string => {
  const error = errorOf(work)
  return error instanceof Error ? error.message : ""
}

const text = fc.string({ unit: "binary", maxLength: 300 }).filter((made) => made.isWellFormed())

describe("an encrypted secret", () => {
  test(`every text comes back from its own place (seed ${seed})`, () => {
    fc.assert(
      fc.property(text, (secret) => {
        const stored = one.encrypt(place, secret)
        return isEncrypted(stored) && one.decrypt(place, stored) === secret
      }),
      { seed },
    )
  })
  test("the stored value names its key, contains no secret and differs every time", () => {
    const secret = "sk-provider-key-0123456789"
    const stored = one.encrypt(place, secret)
    expect(stored).toStartWith("enc1.a.")
    expect(stored).not.toContain(secret)
    expect(stored).not.toContain(Buffer.from(secret).toString("base64url").slice(4, 20))
    expect(one.encrypt(place, secret)).not.toBe(stored)
  })
  test("a large value is encrypted whole", () => {
    const secret = "ü".repeat(500_000)
    expect(one.decrypt(place, one.encrypt(place, secret))).toBe(secret)
  })
  test(`a value moved to another owner, session or field does not decrypt (seed ${seed})`, () => {
    const name = fc.string({ maxLength: 8 })
    const anyPlace = fc.record({ owner: name, session: name, field: name })
    fc.assert(
      fc.property(anyPlace, anyPlace, (from, to) => {
        fc.pre(JSON.stringify(from) !== JSON.stringify(to))
        const stored = one.encrypt(from, "secret")
        return problemOf(() => one.decrypt(to, stored)) === "not-authentic"
      }),
      { seed },
    )
  })
  test("names that contain separators do not make two places one", () => {
    const stored = one.encrypt({ owner: 'a","b', session: "c", field: "d" }, "x")
    expect(problemOf(() => one.decrypt({ owner: "a", session: 'b","c', field: "d" }, stored))).toBe(
      "not-authentic",
    )
  })
  test(`a value with one changed bit does not decrypt (seed ${seed})`, () => {
    const stored = one.encrypt(place, "a secret")
    const [version = "", id = "", nonce = "", sealed = ""] = stored.split(".")
    const flip = (part: string, at: number) => {
      const bytes = Buffer.from(part, "base64url")
      const index = at % (bytes.length * 8)
      bytes.writeUInt8(bytes.readUInt8(index >> 3) ^ (1 << (index & 7)), index >> 3)
      return bytes.toString("base64url")
    }
    fc.assert(
      fc.property(fc.nat(), fc.boolean(), (at, inNonce) => {
        const changed = [
          version,
          id,
          inNonce ? flip(nonce, at) : nonce,
          inNonce ? sealed : flip(sealed, at),
        ].join(".")
        return problemOf(() => one.decrypt(place, changed)) === "not-authentic"
      }),
      { seed },
    )
  })
  test("a truncated tag does not decrypt", () => {
    const stored = one.encrypt(place, "a secret")
    const [version = "", id = "", nonce = "", sealed = ""] = stored.split(".")
    const bytes = Buffer.from(sealed, "base64url")
    for (let cut = 1; cut <= bytes.length; cut += 1) {
      const shorter = bytes.subarray(0, bytes.length - cut).toString("base64url")
      const problem = problemOf(() => one.decrypt(place, [version, id, nonce, shorter].join(".")))
      expect(["not-authentic", "malformed"]).toContain(problem)
    }
  })
  test("text that was never encrypted is reported as malformed", () => {
    for (const stored of ["", "{}", "enc1", "enc1.a.b", "enc2.a.b.c", "enc1.a.!.!", "enc1.a...."]) {
      expect(problemOf(() => one.decrypt(place, stored))).toBe("malformed")
    }
    expect(isEncrypted('{"providerKeys":{}}')).toBeFalse()
  })
  test("the values of two keys are not exchangeable under one id", () => {
    const other = readKeyring(`a:${keyText(2)}`)
    const stored = other.encrypt(place, "x")
    expect(problemOf(() => one.decrypt(place, stored))).toBe("not-authentic")
  })
})

describe("rotation of keys", () => {
  test("the first key writes, and values of later keys stay readable until they are encrypted again", () => {
    const before = readKeyring(`old:${keyText(1)}`)
    const stored = before.encrypt(place, "secret")
    const both = readKeyring(`new:${keyText(2)}, old:${keyText(1)}`)
    expect(stored).toStartWith("enc1.old.")
    expect(both.decrypt(place, stored)).toBe("secret")
    const rotated = both.encrypt(place, "secret")
    expect(rotated).toStartWith("enc1.new.")
    expect(both.decrypt(place, rotated)).toBe("secret")
    const after = readKeyring(`new:${keyText(2)}`)
    expect(after.decrypt(place, rotated)).toBe("secret")
    expect(problemOf(() => after.decrypt(place, stored))).toBe("unknown-key")
  })
  test("a key without an id can get one later", () => {
    const bare = readKeyring(keyText(1))
    const stored = bare.encrypt(place, "secret")
    const named = readKeyring(`2026:${keyText(2)},first:${keyText(1)}`)
    expect(named.decrypt(place, stored)).toBe("secret")
    const samekey = readKeyring(`first:${keyText(1)}`)
    expect(samekey.decrypt(place, stored)).toBe("secret")
  })
  test("a moved value of an older key is refused too", () => {
    const both = readKeyring(`new:${keyText(2)},a:${keyText(1)}`)
    const stored = one.encrypt(place, "secret")
    expect(problemOf(() => both.decrypt({ ...place, session: "s2" }, stored))).toBe("not-authentic")
  })
  test("the error for an unknown key names the key id and what to do", () => {
    const stored = one.encrypt(place, "secret")
    const other = readKeyring(`b:${keyText(2)}`)
    expect(messageOf(() => other.decrypt(place, stored))).toContain(
      "encrypted with the key a, which HUB_ENCRYPTION_KEY does not contain",
    )
  })
})

describe("HUB_ENCRYPTION_KEY", () => {
  test("a key that is not 32 bytes of base64 is refused without being quoted", () => {
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
      expect(problemOf(() => readKeyring(wrong))).toBe("bad-key")
      const message = messageOf(() => readKeyring(wrong))
      expect(message).toMatch(/key \d is not 32 bytes of base64/)
      expect(message).not.toContain(secret)
    }
  })
  test("an id that two keys use is refused", () => {
    expect(problemOf(() => readKeyring(`a:${keyText(1)},a:${keyText(2)}`))).toBe("bad-key")
    expect(problemOf(() => readKeyring(`${keyText(1)},${keyText(1)}`))).toBe("bad-key")
  })
  test("base64url and missing padding are accepted", () => {
    const bytes = Buffer.alloc(32, 0xfb)
    const standard = readKeyring(`a:${bytes.toString("base64")}`)
    const url = readKeyring(`a:${bytes.toString("base64url")}`)
    expect(url.decrypt(place, standard.encrypt(place, "x"))).toBe("x")
  })
})

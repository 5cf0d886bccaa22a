/** 1Password, with a fake `op` program. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { delimiter, join } from "node:path"
import { createOnePassword } from "../../../src/runner/sandbox/onepassword.ts"

const VALUE = "value-of-the-api-key"
let root: string
let path: string

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "op-test-"))
  const item = {
    id: "i1",
    title: "Stripe",
    vault: { id: "v1", name: "Shared" },
    fields: [
      { id: "f1", label: "api key", value: VALUE, reference: "op://Shared/Stripe/api key" },
      { id: "f2", label: "secret", value: VALUE, reference: "op://Shared/Stripe/secret" },
      { id: "f3", label: "notes", value: "no reference" },
    ],
  }
  const op = `#!/bin/sh
echo "$@" >> ${root}/calls
if [ "$OP_SERVICE_ACCOUNT_TOKEN" != good-token ]; then
  echo "[ERROR] 2026/01/01 unauthorized: invalid token" >&2; exit 1
fi
case "$1 $2" in
  "item list") echo '[{"id":"i1","title":"Stripe"}]' ;;
  "item get") cat <<'END'
${JSON.stringify(item)}
END
  ;;
  "read --no-newline")
    case "$3" in
      op://Shared/Stripe/secret) printf %s '${VALUE}' ;;
      op://Shared/Slow/secret) exec sleep 30 ;;
      *) echo "[ERROR] could not read secret ${VALUE}" >&2; exit 1 ;;
    esac ;;
esac
`
  await writeFile(join(root, "op"), op, { mode: 0o755 })
  path = [root, process.env["PATH"]].join(delimiter)
})

afterAll(() => rm(root, { recursive: true, force: true }))

const provider = ({ token = "good-token", ...change }: { token?: string; path?: string } = {}) =>
  createOnePassword({ token: () => token, path, home: root, timeoutMs: 2000, ...change })

const refusalOf = async (promise: Promise<unknown>) =>
  promise.then(
    () => undefined,
    (error: unknown) => error,
  )

describe("1Password", () => {
  test("listing a vault of 1Password returns references and no values", async () => {
    const listed = await provider().list("Shared")
    expect(listed).toEqual([
      {
        reference: "op://Shared/Stripe/api key",
        vault: "Shared",
        item: "Stripe",
        field: "api key",
      },
      { reference: "op://Shared/Stripe/secret", vault: "Shared", item: "Stripe", field: "secret" },
    ])
    const calls = await readFile(join(root, "calls"), "utf8")
    expect(calls).toContain("item list --format json --vault Shared")
    expect(calls).not.toContain("good-token")
  })

  test("references of 1Password are resolved to values", async () => {
    const values = await provider().resolve(["op://Shared/Stripe/secret"])
    expect([...values]).toEqual([["op://Shared/Stripe/secret", VALUE]])
  })

  test("the error for a missing secret names it and contains no output of `op`", async () => {
    const error = await refusalOf(provider().resolve(["op://Shared/Stripe/secret", "op://x/y/z"]))
    expect(error).toMatchObject({ reason: "not-found", message: "there is no secret op://x/y/z" })
    expect(Bun.inspect(error)).not.toContain(VALUE)
  })

  test("a refused service account, a missing `op` and a timeout have errors of their own", async () => {
    const refused = refusalOf(provider({ token: "bad" }).list(undefined))
    expect(await refused).toMatchObject({
      reason: "unavailable",
      message: expect.stringContaining("refuses this sandbox"),
    })
    const missing = refusalOf(provider({ path: "/nowhere" }).list(undefined))
    expect(await missing).toMatchObject({
      reason: "unavailable",
      message: expect.stringContaining("not installed"),
    })
    const slow = refusalOf(provider().resolve(["op://Shared/Slow/secret"]))
    expect(await slow).toMatchObject({ reason: "timeout" })
  })

  test("references of 1Password in a template end before a character that cannot be part of one", () => {
    const { references } = provider()
    expect(`A="op://v/i/f" {{op://v/i/s/f}}, op://v/i/f\n`.match(references)).toEqual([
      "op://v/i/f",
      "op://v/i/s/f",
      "op://v/i/f",
    ])
  })

  test("a reference of 1Password may contain spaces if it is the whole text", () => {
    const { isReference } = provider()
    expect(isReference("op://Shared/Stripe/api key")).toBe(true)
    for (const text of ["--help", "x op://v/i/f", "op://v", "op://v/i/f\n--flag", VALUE]) {
      expect(isReference(text)).toBe(false)
    }
  })
})

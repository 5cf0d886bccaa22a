/** Webhook secrets at rest: rows of an older version, and what a repeated request gets. */
import { expect, test } from "bun:test"
import { openBunSql } from "../../../src/hub/hosts/bun/sql.ts"
import { createSharedStore, type SharedStore } from "../../../src/hub/shared-store/shared-store.ts"
import { digestOf } from "../../../src/lib/digest.ts"

const noDelivery = () => {}
const open = (sql = openBunSql(":memory:"), compact = noDelivery) => {
  let ids = 0
  const store = createSharedStore({
    sql,
    tools: {
      now: () => 1000,
      newId: () => {
        ids += 1
        return `id-${ids}`
      },
      digest: digestOf,
    },
    alarm: { set: () => {} },
    deliveries: {
      order: noDelivery,
      cancel: noDelivery,
      prompt: noDelivery,
      notify: noDelivery,
      git: noDelivery,
      note: noDelivery,
    },
    report: () => {},
    compact,
  })
  return { sql, store }
}
const knock = (store: SharedStore, id: string, secret: string) =>
  store.hook(id, { secret, data: {} }).status
const request = (action: "create" | "update", payload: Record<string, unknown>, id = "r1") =>
  ({ type: "trigger-api", requestId: id, action, payload }) as const
const webhook = { name: "door", config: { type: "webhook", prompt: "ring", secret: "open sesame" } }
const idOf = (answer: unknown) => (answer as { data: { trigger: { id: string } } }).data.trigger.id

test("a plain secret of an older version is hashed at the start, the webhook works, and the file is compacted", () => {
  const { sql } = open()
  sql.run(
    `INSERT INTO triggers (id, name, type, session, enabled, config, mapping, created_at)
     VALUES ('t1', 'door', 'webhook', 's1', 1, ?, '{}', 1)`,
    JSON.stringify(webhook.config),
  )
  const old = { data: { trigger: { id: "t1", secret: "open sesame" }, success: true } }
  sql.run("INSERT INTO rpc (request_id, result, at) VALUES ('s1/r0', ?, 1)", JSON.stringify(old))
  let compacted = 0
  const { store } = open(sql, () => {
    compacted += 1
  })
  expect(compacted).toBe(1)
  expect(JSON.stringify(sql.all("SELECT * FROM triggers"))).not.toContain("sesame")
  expect(JSON.stringify(sql.all("SELECT * FROM rpc"))).not.toContain("sesame")
  expect(knock(store, "t1", "wrong")).toBe(401)
  expect(knock(store, "t1", "open sesame")).toBe(202)
  open(sql, () => {
    compacted += 1
  })
  expect(compacted).toBe(1)
})

test("a repeated request names the same trigger and says that the secret was in the first result", () => {
  const { sql, store } = open()
  const first = store.answer("s1", request("create", webhook))
  expect(JSON.stringify(first)).toContain("open sesame")
  const again = store.answer("s1", request("create", webhook))
  expect(idOf(again)).toBe(idOf(first))
  expect(JSON.stringify(again)).not.toContain("sesame")
  expect(JSON.stringify(again)).toContain("the secret was in the first result only")
  expect(sql.all("SELECT * FROM triggers")).toHaveLength(1)
})

test("an update without a secret keeps it, and a caller cannot set the stored hash", () => {
  const { sql, store } = open()
  const id = idOf(store.answer("s1", request("create", webhook)))
  const forged = { type: "webhook", prompt: "knock", secretHash: "sha256:0" }
  store.answer("s1", request("update", { triggerId: id, config: forged }, "r2"))
  expect(knock(store, id, "open sesame")).toBe(202)
  expect(JSON.stringify(sql.all("SELECT config FROM triggers"))).not.toContain('sha256:0"')
  const changed = { type: "webhook", prompt: "knock", secret: "another" }
  store.answer("s1", request("update", { triggerId: id, config: changed }, "r3"))
  expect(knock(store, id, "open sesame")).toBe(401)
  expect(knock(store, id, "another")).toBe(202)
})

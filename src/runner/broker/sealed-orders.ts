/**
 * What the runner and its broker say to each other, encrypted. An agent that runs as the runner's user can put a socket of
 * its own in the place of the broker's: it can neither read an order, nor make one, nor repeat an old one.
 */
import { hkdfSync } from "node:crypto"
import { z } from "zod"
import { parseJson } from "../../lib/json.ts"
import { seal, unseal } from "../../lib/seal.ts"

const upstreamsOrder = z.object({
  /** Higher than that of every order before it, also of those of an earlier runner. */
  number: z.number(),
  /** Both are absent while the runner has no configuration yet: a broker that it adopts keeps what it has. */
  models: z
    .record(
      z.string(),
      z.object({
        baseUrl: z.string(),
        auth: z.enum(["bearer", "x-api-key", "x-goog-api-key"]),
        key: z.string().optional(),
      }),
    )
    .optional(),
  services: z
    .record(
      z.string(),
      z.object({
        url: z.url(),
        headers: z.record(z.string(), z.string()),
        calls: z.enum(["mcp", "parallel"]),
      }),
    )
    .optional(),
})
export type UpstreamsOrder = z.output<typeof upstreamsOrder>

const orderReply = z.object({ number: z.number(), version: z.string() })
export type OrderReply = z.output<typeof orderReply>

const ORDER = "order"
const REPLY = "reply"

/**
 * The next runner of this boot derives the same key, with which it orders the broker that it adopts. `secret`: the runner's
 * token, which the agent cannot read. `boot`: makes the keys of two boots different.
 */
export const orderKeyOf = (secret: string, boot: string): string =>
  Buffer.from(hkdfSync("sha256", secret, boot, "orders to the key broker", 32)).toString("hex")

export const sealOrder = (key: string, order: UpstreamsOrder): string =>
  seal(key, ORDER, JSON.stringify(order))
export const openOrder = (key: string, sealed: string): UpstreamsOrder | undefined =>
  upstreamsOrder.safeParse(parseJson(unseal(key, ORDER, sealed) ?? "")).data

export const sealReply = (key: string, reply: OrderReply): string =>
  seal(key, REPLY, JSON.stringify(reply))
export const openReply = (key: string, sealed: string): OrderReply | undefined =>
  orderReply.safeParse(parseJson(unseal(key, REPLY, sealed) ?? "")).data

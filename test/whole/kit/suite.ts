/** Every tool through the whole system on one host: the call of the model, then its effect at the far end. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { tools } from "../../../tools/index.ts"
import { effects, type ToolName } from "../effects.ts"
import { rows } from "../rows/index.ts"
import { describeConversation } from "./conversation.ts"
import { type House, startHouse } from "./house.ts"
import type { HostName } from "./hosts.ts"

const ROW_MS = 120_000

export const describeTools = (host: HostName): void =>
  describe(`every tool with the hub on ${host}`, () => {
    let house: House
    beforeAll(async () => {
      house = await startHouse(host)
    }, ROW_MS)
    afterAll(() => house.stop(), ROW_MS)

    test("every tool has an effect and a row", () => {
      const names = Object.keys(tools).toSorted()
      expect(names).toHaveLength(70)
      expect(Object.keys(effects).toSorted()).toEqual(names)
      expect(Object.keys(rows).toSorted()).toEqual(names)
    })

    describeConversation(() => house)

    for (const name of Object.keys(rows) as ToolName[]) {
      test(`${name}: ${effects[name].effect}`, () => rows[name](house), ROW_MS)
    }
  })

/** Names and labels in a cloud: what is written is read back, and different names stay different. */
import { expect, test } from "bun:test"
import * as fc from "fast-check"
import { cloudVolumeName } from "../../../src/fleet/providers/cloud-labels.ts"
import { modalInfo, modalTags } from "../../../src/fleet/providers/modal-tags.ts"

const text = fc.string({ minLength: 1, maxLength: 80, unit: "grapheme" })

test("every session is read back from its tags, which have only characters that Modal accepts", () => {
  fc.assert(
    fc.property(text, text, fc.nat({ max: 999_999_999 }), (session, tenant, generation) => {
      const labels = { deployment: "d", tenant, session, generation: String(generation) }
      const tags = modalTags(labels, 5, 7)
      for (const value of Object.values(tags)) expect(value).toMatch(/^[A-Za-z0-9_.-]+$/)
      expect(modalInfo("sb-1", tags)).toEqual({
        ref: "sb-1",
        state: "running",
        session,
        generation,
        createdAt: 5,
        expiresAt: 12,
      })
    }),
  )
})

test("the name of a volume has letters, digits and dashes, and two names never become one", () => {
  fc.assert(
    fc.property(text, text, (one, other) => {
      expect(cloudVolumeName(one)).toMatch(/^[A-Za-z0-9][A-Za-z0-9-]{0,63}$/)
      expect(cloudVolumeName(one) === cloudVolumeName(other)).toBe(one === other)
      // A session cannot choose its name so that it gets the volume of another one.
      const encoded = cloudVolumeName(`${one}:`)
      expect(cloudVolumeName(encoded)).not.toBe(encoded)
    }),
  )
  expect(cloudVolumeName("workspace-thread-1")).toBe("workspace-thread-1")
})

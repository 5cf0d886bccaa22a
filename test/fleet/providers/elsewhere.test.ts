/** What a sandbox on another machine or in a container gets: its image, the hub's address, nothing of the fleet's machine. */
import { describe, expect, test } from "bun:test"
import { elsewhere, specElsewhere } from "../../../src/fleet/providers/elsewhere.ts"
import { createNoopProvider } from "../../../src/fleet/providers/noop.ts"
import type { SandboxSpec } from "../../../src/fleet/providers/contract.ts"

const spec: SandboxSpec = {
  session: "s1",
  generation: 1,
  name: "sp-s1-1",
  labels: { deployment: "d1", tenant: "t", session: "s1", generation: "1" },
  image: { kind: "image", id: "0.2.0" },
  environment: {
    DO_WS_URL: "ws://127.0.0.1:4000/sessions/a%20b/ws?x=1",
    PATH: "/usr/bin",
    OPENCODE_BIN: "/opt/opencode",
    ANTHROPIC_API_KEY: "k",
  },
  volumes: [],
  ports: [9000],
  resources: {},
  idleMs: 1000,
  lifeMs: 10_000,
}

describe("a sandbox with an image of its own", () => {
  test("a sandbox outside this machine gets the image of the settings and the public address of the hub, with the path of its session", () => {
    const moved = specElsewhere(spec, { image: "sandpiper:1", hubUrl: "wss://hub.example.com" })
    expect(moved.image).toEqual({ kind: "image", id: "sandpiper:1" })
    expect(moved.environment).toEqual({
      DO_WS_URL: "wss://hub.example.com/sessions/a%20b/ws?x=1",
      ANTHROPIC_API_KEY: "k",
    })
  })

  test("a snapshot stays what it is, and without an address the hub's own is kept", () => {
    const image = { kind: "snapshot", id: "x" } as const
    const moved = specElsewhere({ ...spec, image }, { image: "i", hubUrl: undefined })
    expect(moved.image).toEqual(image)
    expect(moved.environment["DO_WS_URL"]).toBe(spec.environment["DO_WS_URL"])
  })

  test("all other calls are those of the provider", async () => {
    const provider = elsewhere(
      createNoopProvider(() => 7),
      { image: "i", hubUrl: undefined },
    )
    const limit = AbortSignal.timeout(5000)
    expect(await provider.create(spec, limit)).toMatchObject({ is: "ok" })
    expect(await provider.look("sp-s1-1")).toMatchObject({ value: { state: "running" } })
  })
})

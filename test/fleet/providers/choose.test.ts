/** Choosing a provider by its type, and the provider without sandboxes. */
import { describe, expect, test } from "bun:test"
import { chooseProvider } from "../../../src/fleet/providers/choose.ts"
import { createNoopProvider } from "../../../src/fleet/providers/noop.ts"
import type { SandboxSpec } from "../../../src/fleet/providers/contract.ts"

const makers = { noop: () => createNoopProvider(() => 7) }

const spec: SandboxSpec = {
  session: "s1",
  generation: 1,
  name: "sp-s1-1",
  labels: { deployment: "d1", tenant: "t", session: "s1", generation: "1" },
  image: { kind: "image", id: "base" },
  environment: {},
  volumes: [],
  ports: [9000],
  resources: {},
  idleMs: 1000,
  lifeMs: 10_000,
}

describe("choosing a sandbox provider", () => {
  test("a known type gives its provider", async () => {
    expect((await chooseProvider("noop", makers)).name).toBe("noop")
  })

  test("an unknown type fails with the list of types", () => {
    expect(chooseProvider("mars", makers)).rejects.toThrow(
      'SANDBOX_PROVIDER is "mars": set it to one of noop',
    )
  })

  test("a missing type fails with the list of types", () => {
    expect(chooseProvider(undefined, makers)).rejects.toThrow("SANDBOX_PROVIDER is not set")
  })

  test("a type that this build lacks fails although its name is known", () => {
    expect(chooseProvider("modal", makers)).rejects.toThrow("set it to one of noop")
  })
})

describe("the provider without sandboxes", () => {
  test("a sandbox is listed for its deployment only and is missing after its end", async () => {
    const provider = createNoopProvider(() => 7)
    const limit = AbortSignal.timeout(1000)
    expect(await provider.create(spec, limit)).toEqual({ is: "ok", value: { ref: "sp-s1-1" } })
    expect(await provider.create(spec, limit)).toMatchObject({ is: "unknown" })
    expect(await Array.fromAsync(provider.list({ deployment: "d2" }))).toEqual([])
    expect(await Array.fromAsync(provider.list({ deployment: "d1" }))).toHaveLength(1)
    await provider.pause("sp-s1-1")
    expect(await provider.look("sp-s1-1")).toMatchObject({ value: { state: "paused" } })
    await provider.terminate("sp-s1-1")
    expect(await provider.look("sp-s1-1")).toEqual({ is: "missing" })
    expect(await provider.resume("sp-s1-1", spec)).toEqual({ is: "missing" })
  })
})

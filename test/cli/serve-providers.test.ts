/** Which sandbox provider `serve` makes from its settings, and what is missing for it. */
import { describe, expect, test } from "bun:test"
import { defaultLimits, diskLimitOf, limitsOf } from "../../src/cli/sandbox-limits.ts"
import { providerMakers } from "../../src/cli/serve-providers.ts"
import { chooseProvider } from "../../src/fleet/providers/choose.ts"
import { readInvocation } from "../../src/settings/settings.ts"
import type { Environment } from "../../src/settings/setting.ts"
import type { LimitName, SandboxSpec } from "../../src/fleet/providers/contract.ts"
import { CLOUD_IMAGE } from "../fleet/kit/cloud.ts"
import { DAYTONA_KEY, startDaytonaDouble } from "../fleet/kit/daytona-double.ts"
import { E2B_KEY, startE2bDouble } from "../fleet/kit/e2b-double.ts"
import { silentLog } from "../fleet/kit/fleet.ts"
import { MODAL_TOKEN_ID, MODAL_TOKEN_SECRET, startModalDouble } from "../fleet/kit/modal-double.ts"

const settingsOf = (env: Environment) => {
  const invocation = readInvocation(["serve"], { HOME: "/tmp", ...env }, "/tmp")
  if (invocation.want !== "command") throw new Error(`got ${invocation.want}`)
  return invocation.settings
}

const choose = async (env: Environment) => {
  const settings = settingsOf(env)
  return chooseProvider(settings.sandboxProvider, providerMakers(settings, silentLog))
}

describe("the sandbox provider of serve", () => {
  test("docker in a network of its own needs the address at which containers reach the hub", async () => {
    expect(choose({ SANDBOX_PROVIDER: "docker" })).rejects.toThrow("SANDBOX_HUB_URL is missing")
    const env = { SANDBOX_PROVIDER: "docker", SANDBOX_HUB_URL: "wss://hub.example.com" }
    expect((await choose(env)).name).toBe("docker")
  })

  test("docker in the network of the host reaches the hub on loopback", async () => {
    const provider = await choose({ SANDBOX_PROVIDER: "docker", DOCKER_NETWORK: "host" })
    expect(provider.name).toBe("docker")
    expect(provider.can.supportsPause).toBe(true)
  })

  test("docker in the network of the host is refused together with an egress policy, whose packet filter would be the machine's", async () => {
    const egress = { SANDBOX_PROVIDER: "docker", SANDBOX_EGRESS: "allow-list" }
    expect(choose({ ...egress, DOCKER_NETWORK: "host" })).rejects.toThrow(
      "SANDBOX_EGRESS=allow-list does not work with DOCKER_NETWORK=host",
    )
    const own = { DOCKER_NETWORK: "sandboxes", SANDBOX_HUB_URL: "wss://hub.example.com" }
    expect((await choose({ ...egress, ...own })).name).toBe("docker")
  })

  test("kubernetes is found in a cluster and needs the address at which pods reach the hub", async () => {
    const type = { SANDBOX_PROVIDER: "kubernetes" }
    const hub = { SANDBOX_HUB_URL: "wss://hub.example.com" }
    const cluster = { KUBERNETES_SERVICE_HOST: "fd00::1", KUBERNETES_SERVICE_PORT: "6443" }
    expect(choose({ ...type, ...hub })).rejects.toThrow("KUBERNETES_URL is missing")
    expect(choose({ ...type, ...cluster })).rejects.toThrow("SANDBOX_HUB_URL is missing")
    expect((await choose({ ...type, ...hub, ...cluster })).name).toBe("kubernetes")
  })

  test("an address of the hub without TLS is refused", () => {
    expect(choose({ SANDBOX_HUB_URL: "ws://hub.example.com" })).rejects.toThrow("wss://")
  })

  const clouds = {
    modal: { MODAL_TOKEN_ID: "ak-id", MODAL_TOKEN_SECRET: "as-secret" },
    e2b: { E2B_API_KEY: "e2b_key" },
    daytona: { DAYTONA_API_KEY: "dtn_key" },
  } as const
  for (const [name, keys] of Object.entries(clouds)) {
    const hub = { SANDBOX_PROVIDER: name, SANDBOX_HUB_URL: "wss://hub.example.com" }

    test(`${name} is made from its keys and the address of the hub`, async () => {
      expect<string>((await choose({ ...hub, ...keys })).name).toBe(name)
    })

    test(`${name} without one of its keys, or without the address of the hub, is refused by the name of the setting`, async () => {
      for (const key of Object.keys(keys)) {
        const rest = Object.fromEntries(Object.entries(keys).filter(([one]) => one !== key))
        expect(choose({ ...hub, ...rest })).rejects.toThrow(`${key} is missing`)
      }
      const alone = choose({ SANDBOX_PROVIDER: name, ...keys })
      expect(alone).rejects.toThrow("SANDBOX_HUB_URL is missing")
    })
  }

  test("limits that the provider enforces are those of each sandbox, and others are refused by the name of the setting", async () => {
    const limits = { SANDBOX_CPUS: "1.5", SANDBOX_MEMORY_MIB: "512", SANDBOX_PIDS: "100" }
    const read = async (name: string, given: Environment) => {
      const keys = Object.entries(clouds).find(([one]) => one === name)?.[1]
      const hub = { SANDBOX_PROVIDER: name, SANDBOX_HUB_URL: "wss://hub.example.com" }
      const env = { KUBERNETES_URL: "https://127.0.0.1", ...hub, ...keys, ...given }
      return limitsOf(settingsOf(env), await choose(env))
    }
    expect(await read("docker", limits)).toEqual({ cpu: 1.5, memoryMiB: 512, pids: 100 })
    const { SANDBOX_PIDS, ...withoutPids } = limits
    for (const name of ["modal", "kubernetes"]) {
      expect(await read(name, withoutPids)).toEqual({ cpu: 1.5, memoryMiB: 512 })
      expect(read(name, { SANDBOX_PIDS })).rejects.toThrow("unset SANDBOX_PIDS: ")
    }
    for (const name of ["e2b", "daytona", "noop"]) {
      expect(await read(name, {})).toEqual({})
      expect(read(name, limits)).rejects.toThrow(
        "unset SANDBOX_CPUS and SANDBOX_MEMORY_MIB and SANDBOX_PIDS: ",
      )
    }
    expect(read("daytona", withoutPids)).rejects.toThrow("of its snapshot")
  })

  test("an isolated local sandbox has limits of memory and processes by the size of the machine, and a setting replaces each", async () => {
    const machine = { memoryMiB: 24_000, cores: 2 }
    const hub = { SANDBOX_PROVIDER: "docker", SANDBOX_HUB_URL: "wss://hub.example.com" }
    const { can } = await choose(hub)
    const local = (limits: readonly LimitName[]) =>
      ({ name: "local", can: { ...can, limits } }) as const
    const all = local(["cpu", "memoryMiB", "pids"])
    expect(limitsOf(settingsOf({}), all, machine)).toEqual({ memoryMiB: 12_000, pids: 1024 })
    expect(limitsOf(settingsOf({ SANDBOX_PIDS: "9000" }), all, machine)).toEqual({
      memoryMiB: 12_000,
      pids: 9000,
    })
    expect(limitsOf(settingsOf({}), local([]), machine)).toEqual({})
    expect(limitsOf(settingsOf({}), { ...all, name: "docker" }, machine)).toEqual({})
    expect(defaultLimits({ memoryMiB: 1500, cores: 1 })).toEqual({ memoryMiB: 1024, pids: 768 })
    expect(defaultLimits({ memoryMiB: 900, cores: 64 })).toEqual({ memoryMiB: 900, pids: 4096 })
  })

  test("the disk of a local sandbox has a limit by the size of the disk, a setting replaces it, and 0 is none", async () => {
    const GIB = 1024 ** 3
    const room = async () => ({
      free: { bytes: 1, inodes: 1 },
      total: { bytes: 500 * GIB, inodes: 32e6 },
    })
    const local = { name: "local", disks: { room } } as const
    const limit = (given: Environment) => diskLimitOf(settingsOf(given), local)
    expect(await limit({})).toEqual({ bytes: 50 * GIB, inodes: 2e6 })
    expect(await limit({ SANDBOX_DISK_MIB: "2048", SANDBOX_FILES: "0" })).toEqual({
      bytes: 2 * GIB,
      inodes: Infinity,
    })
    const elsewhere = { name: "docker" } as const
    expect(await diskLimitOf(settingsOf({}), elsewhere)).toBeUndefined()
    expect(diskLimitOf(settingsOf({ SANDBOX_DISK_MIB: "1" }), elsewhere)).rejects.toThrow(
      "unset SANDBOX_DISK_MIB: ",
    )
  })

  test("SANDBOX_IDLE_BUFFER_SECONDS is the time that each cloud adds to the idle time of a sandbox", async () => {
    const spec: SandboxSpec = {
      session: "s",
      generation: 1,
      name: "sp-s-1",
      labels: { deployment: "d", tenant: "t", session: "s", generation: "1" },
      image: { kind: "image", id: "1.0.0" },
      environment: { DO_WS_URL: "ws://127.0.0.1:1/sessions/s/ws" },
      volumes: [],
      ports: [9000],
      resources: {},
      idleMs: 300_000,
      lifeMs: 7_200_000,
    }
    const env = {
      SANDBOX_HUB_URL: "wss://hub.example.com",
      SANDBOX_IDLE_BUFFER_SECONDS: "1200",
      SANDBOX_IMAGE: CLOUD_IMAGE,
    }
    const limit = AbortSignal.timeout(60_000)
    const e2b = await startE2bDouble()
    const atE2b = await choose({
      ...env,
      SANDBOX_PROVIDER: "e2b",
      E2B_API_KEY: E2B_KEY,
      E2B_API_URL: e2b.url,
      E2B_SANDBOX_URL: e2b.url,
    })
    expect(await atE2b.create(spec, limit)).toMatchObject({ is: "ok" })
    expect(e2b.calls.find(({ path }) => path === "/v2/sandboxes")?.json).toMatchObject({
      timeout: 1500,
    })
    await e2b.stop()
    const daytona = await startDaytonaDouble()
    const atDaytona = await choose({
      ...env,
      SANDBOX_PROVIDER: "daytona",
      DAYTONA_API_KEY: DAYTONA_KEY,
      DAYTONA_API_URL: daytona.apiUrl,
    })
    expect(await atDaytona.create(spec, limit)).toMatchObject({ is: "ok" })
    const created = daytona.calls.find(
      ({ method, path }) => method === "POST" && path === "/api/sandbox",
    )
    expect(created?.json).toMatchObject({ autoStopInterval: 25 })
    await daytona.stop()
    const modal = await startModalDouble()
    process.env["MODAL_SERVER_URL"] = modal.url
    const atModal = await choose({
      ...env,
      SANDBOX_PROVIDER: "modal",
      MODAL_TOKEN_ID,
      MODAL_TOKEN_SECRET,
    })
    expect(await atModal.create(spec, limit)).toMatchObject({ is: "ok" })
    const asked = modal.calls.find(({ name }) => name === "sandboxCreateV2")?.request
    expect(asked).toMatchObject({ definition: { timeoutSecs: 7200, idleTimeoutSecs: 1500 } })
    await modal.stop()
  })

  test("a type that does not exist fails with the list of types", () => {
    expect(choose({ SANDBOX_PROVIDER: "mars" })).rejects.toThrow("set it to one of local, docker")
  })
})

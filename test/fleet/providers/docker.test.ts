/** Containers as sandboxes, against doubles that answer as Docker and as Podman do. Podman itself is in test/stack. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import type { SandboxProvider } from "../../../src/fleet/providers/contract.ts"
import { createDockerProvider } from "../../../src/fleet/providers/docker.ts"
import { containerOf, readOutput, volumeName } from "../../../src/fleet/providers/docker-engine.ts"
import { archiveOf, environmentScript } from "../../../src/fleet/providers/environment-file.ts"
import { DOCKER_IMAGE, type DockerDouble, startDockerDouble } from "../kit/docker-double.ts"
import {
  type ContractSubject,
  contractSpec,
  describeProvider,
  limit,
  startSandbox,
  valueOf,
} from "../provider-contract.ts"
import { untilFound, untilTrue } from "../../kit/until-true.ts"

const SECRET = "token-of-the-runner-0123456789"

const subjectOn = (double: DockerDouble, network = "bridge"): ContractSubject => ({
  provider: createDockerProvider({
    socket: double.socket,
    network,
    clock: double.clock,
    // With a fault, the end of a command gets no answer either.
    killMs: 20,
  }),
  image: { kind: "image", id: DOCKER_IMAGE },
  missingRef: "sp-none-1",
  missingSnapshot: "localhost/sandpiper-snapshot:sp-none-1-1",
  writes: double.server.writes,
  faults: double.server.faults,
  stop: double.stop,
})

for (const engine of ["docker", "podman"] as const)
  describeProvider({
    name: `docker with a double of ${engine}`,
    can: {
      supportsPause: true,
      supportsAutoPause: false,
      snapshot: "copy",
      supportsMemorySnapshot: false,
      volumes: true,
      uniqueNames: true,
      limits: ["cpu", "memoryMiB", "pids"],
      exec: true,
      startsRunner: true,
      maxLifeMs: undefined,
      snapshotLifeMs: undefined,
    },
    hasDisk: true,
    hasFaults: engine === "docker",
    setup: async () => subjectOn(await startDockerDouble(engine)),
  })

describe("a sandbox of the provider docker", () => {
  let double: DockerDouble
  let subject: ContractSubject
  let provider: SandboxProvider
  beforeAll(async () => {
    double = await startDockerDouble("docker")
    subject = subjectOn(double)
    provider = subject.provider
  })
  afterAll(() => double.stop())

  test("the secrets of a container are in a file for root only and not in its description", async () => {
    const environment = { RUNNER_TOKEN: SECRET, ODD: 'it\'s $HOME `x`\n"y"' }
    const ref = await startSandbox(subject, "secrets", { environment })
    expect(double.creates.join("")).not.toContain(SECRET)
    const folder = double.containers.get(ref)?.mounts["/run/sandpiper"] ?? ""
    expect(readFileSync(join(folder, "environment"), "utf8")).toContain(SECRET)
    expect((await Bun.file(join(folder, "environment")).stat()).mode & 0o777).toBe(0o600)
    const argv = ["sh", "-c", 'printf "%s" "$ODD"']
    expect(await provider.exec(ref, { argv }, limit())).toMatchObject({
      value: { stdout: environment.ODD },
    })
    // A command leaves no file behind.
    expect(readdirSync(folder)).toEqual(["environment"])
  })

  test.each([
    ["host", "", "'vscode,ttyd'"],
    ["host", "vscode,vnc", "'vscode'"],
    ["bridge", "vscode,vnc", "'vscode,vnc'"],
  ] as const)(
    "a container in the network %s that is asked for the services '%s' starts %s",
    async (network, services, expected) => {
      const name = `screen-${network}-${services.length}`
      const environment = services === "" ? {} : { SANDPIPER_SERVICES: services }
      const ref = await startSandbox(subjectOn(double, network), name, { environment })
      const folder = double.containers.get(ref)?.mounts["/run/sandpiper"] ?? ""
      const text = readFileSync(join(folder, "environment"), "utf8")
      expect(text).toContain(`SANDPIPER_SERVICES=${expected}`)
    },
  )

  test("a variable that is no variable is refused before anything is created", async () => {
    const change = { environment: { "BAD-NAME": "x" } }
    const made = await provider.create(contractSpec(subject, "bad", change), limit())
    expect(made).toMatchObject({ is: "refused" })
    expect(double.containers.has("sp-bad-1")).toBe(false)
  })

  test("a sandbox with an egress policy is refused in the network of the host, whose packet filter would be its own", async () => {
    const { socket, clock } = double
    const onHost = createDockerProvider({ socket, network: "host", clock })
    const change = { environment: { SANDBOX_EGRESS: "allow-list" } }
    const made = await onHost.create(contractSpec(subject, "filter", change), limit())
    expect(made).toMatchObject({ is: "refused", why: expect.stringContaining("SANDBOX_EGRESS") })
    expect(double.containers.has("sp-filter-1")).toBe(false)
  })

  test("an image that is not on the machine is refused with what to do", async () => {
    const change = { image: { kind: "image", id: "none:1" } } as const
    const made = await provider.create(contractSpec(subject, "none", change), limit())
    expect(made).toMatchObject({ is: "refused", why: expect.stringContaining("pull or build it") })
  })

  test("a container that was created and never started is removed by a resume and is then missing", async () => {
    double.server.faults.set("cut-before", 2)
    const made = await provider.create(contractSpec(subject, "half"), limit())
    double.server.faults.clear()
    expect(made).toMatchObject({ is: "unknown" })
    expect(await provider.look("sp-half-1")).toMatchObject({ value: { state: "stopped" } })
    expect(await provider.resume("sp-half-1", contractSpec(subject, "half"))).toEqual({
      is: "missing",
    })
    expect(double.containers.has("sp-half-1")).toBe(false)
  })

  test("a stopped container is started again by a resume", async () => {
    const ref = await startSandbox(subject, "stopped")
    const container = double.containers.get(ref)
    if (container) container.status = "exited"
    expect(await provider.look(ref)).toMatchObject({ value: { state: "stopped" } })
    expect(await provider.resume(ref, contractSpec(subject, "stopped"))).toMatchObject({ is: "ok" })
    expect(await provider.look(ref)).toMatchObject({ value: { state: "running" } })
  })

  test("the address of a container is its published port, and a sandbox that does not run has none", async () => {
    const ref = await startSandbox(subject, "address")
    const port = double.containers.get(ref)?.port
    expect(await provider.address(ref, 9000)).toEqual({
      is: "ok",
      value: { url: `http://127.0.0.1:${port}`, headers: {} },
    })
    expect(await provider.address(ref, 9001)).toMatchObject({ is: "refused" })
    await provider.pause(ref)
    expect(await provider.address(ref, 9000)).toMatchObject({ is: "refused" })
  })

  test("a command that reaches its limit is killed with its children", async () => {
    const ref = await startSandbox(subject, "limit")
    const own = createDockerProvider({
      socket: double.socket,
      network: "bridge",
      clock: double.clock,
    })
    const folder = double.containers.get(ref)?.folder ?? ""
    const controller = new AbortController()
    const argv = ["sh", "-c", "sleep 600 & echo $! > child; sleep 600"]
    const running = own.exec(ref, { argv }, controller.signal)
    const child = join(folder, "child")
    const pid = await untilFound(
      () => existsSync(child) && Number(readFileSync(child, "utf8")),
      "child of the command",
    )
    controller.abort()
    expect(await running).toMatchObject({ is: "unknown" })
    const isAlive = () => {
      try {
        return !readFileSync(`/proc/${pid}/stat`, "utf8").includes(") Z ")
      } catch {
        return false
      }
    }
    await untilTrue(() => !isAlive(), "end of the process")
  })

  test("a snapshot that its sandbox still uses is removed, and its image goes with the sandbox", async () => {
    const first = await startSandbox(subject, "used")
    const { id } = valueOf(await provider.snapshot(first, "disk", limit()))
    const restored = await startSandbox(subject, "used", {
      generation: 2,
      image: { kind: "snapshot", id },
    })
    expect(await provider.removeSnapshot(id)).toMatchObject({ is: "ok" })
    const again = contractSpec(subject, "used", { generation: 3, image: { kind: "snapshot", id } })
    expect(await provider.create(again, limit())).toEqual({ is: "missing" })
    expect(await provider.look(restored)).toMatchObject({ value: { state: "running" } })
    await provider.terminate(restored)
    expect([...double.tags.keys()].filter((tag) => tag.startsWith("localhost/"))).toEqual([])
  })

  test("a container without the labels of a sandbox is not one, and its id is no ref", async () => {
    const ref = await startSandbox(subject, "id")
    const id = double.containers.get(ref)?.id ?? ""
    expect((await provider.look(id)).is).not.toBe("ok")
  })
})

describe("what the provider docker sends", () => {
  const spec = contractSpec({ image: { kind: "image", id: "i" } } as ContractSubject, "s", {
    resources: { cpu: 1.5, memoryMiB: 512, pids: 100 },
    volumes: [{ name: "workspace-a:b", path: "/workspace", readOnly: true }],
  })

  test("limits, volumes and labels are in the engine's form, and ports are published on loopback only", () => {
    expect(containerOf(spec, { network: "bridge", gatewayPort: undefined })).toMatchObject({
      Labels: { "sandpiper.deployment": "contract", "sandpiper.session": "s" },
      HostConfig: {
        NanoCpus: 1_500_000_000,
        Memory: 536_870_912,
        PidsLimit: 100,
        CapAdd: [],
        SecurityOpt: ["no-new-privileges"],
        PortBindings: { "9000/tcp": [{ HostIp: "127.0.0.1", HostPort: "" }] },
        Mounts: [{}, { Source: "workspace-a_x3a_b", Target: "/workspace", ReadOnly: true }],
      },
    })
  })

  test("a sandbox with an egress policy may set packet filters, and no other sandbox may", () => {
    const environment = { SANDBOX_EGRESS: "allow-list" }
    const body = containerOf(
      { ...spec, environment },
      { network: "bridge", gatewayPort: undefined },
    )
    expect(body).toMatchObject({ HostConfig: { CapAdd: ["NET_ADMIN"] } })
  })

  test("in the network of the host no port is published and the gateway's port is a label", () => {
    expect(containerOf(spec, { network: "host", gatewayPort: 5000 })).toMatchObject({
      Labels: { "sandpiper.gateway-port": "5000" },
      HostConfig: { NetworkMode: "host", PortBindings: {} },
    })
  })

  test("different volumes have different names", () => {
    expect(volumeName("a:b")).not.toBe(volumeName("a_b"))
    expect(volumeName("workspace-1.2_3")).toBe("workspace-1.2_3")
  })

  test("the archive of the environment is read by tar", async () => {
    const text = environmentScript({ A: "b".repeat(600), C: "d'e" }) ?? ""
    const tar = Bun.spawn(["tar", "-xO", "environment"], {
      stdin: archiveOf("environment", text),
      stdout: "pipe",
    })
    expect(await new Response(tar.stdout).text()).toBe(text)
    expect(await tar.exited).toBe(0)
  })

  test("output that is cut in a frame is not understood", () => {
    const whole = Buffer.from([1, 0, 0, 0, 0, 0, 0, 2, 111, 107])
    expect(readOutput(whole)).toEqual({ stdout: "ok", stderr: "" })
    expect(readOutput(whole.subarray(0, 9))).toBeUndefined()
    expect(readOutput(whole.subarray(0, 5))).toBeUndefined()
  })
})

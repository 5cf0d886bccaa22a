/** The shapes of the Docker Engine API that the provider uses: bodies it sends, answers it reads. Pure. */
import { z } from "zod"
import type { SandboxInfo, SandboxLabels, SandboxSpec } from "./contract.ts"
import type { HttpAnswer } from "./http.ts"
import { ENVIRONMENT_FOLDER, startCommand } from "./environment-file.ts"

export const label = (name: keyof SandboxLabels): string => `sandpiper.${name}`
/** The gateway's port of a sandbox in the network of the host, which has no published ports. */
const PORT_LABEL = "sandpiper.gateway-port"

/** More than the engine's own limit fails at the start of a container on machines with a low one. */
const OPEN_FILES = 16_384
const PROCESSES = 16_384
const MIB = 1024 * 1024

/** Capabilities of a container that a sandbox does not need. */
const DROPPED = ["AUDIT_WRITE", "MKNOD", "NET_RAW", "SETFCAP", "SYS_CHROOT"]

const ulimit = (Name: string, value: number) => ({ Name, Soft: value, Hard: value })

export interface ContainerOptions {
  readonly network: string
  /** For the network `host`: the port on which the gateway listens. */
  readonly gatewayPort: number | undefined
}

/** The runner of this sandbox sets rules of the packet filter, which are those of the container's network. */
export const filtersPackets = ({ environment }: Pick<SandboxSpec, "environment">): boolean =>
  environment["SANDBOX_EGRESS"] === "allow-list"

/** The body that creates a container. The environment is not in it: a description of the container shows it to everyone. */
export const containerOf = (spec: SandboxSpec, options: ContainerOptions): unknown => {
  const { cpu, memoryMiB, pids } = spec.resources
  const isPublished = options.gatewayPort === undefined
  const ports = isPublished ? spec.ports.map((port) => `${port}/tcp`) : []
  return {
    Image: spec.image.id,
    Entrypoint: startCommand,
    Cmd: [],
    Labels: {
      ...Object.fromEntries(
        Object.entries(spec.labels).map(([name, value]) => [`sandpiper.${name}`, value]),
      ),
      [PORT_LABEL]: options.gatewayPort === undefined ? "" : String(options.gatewayPort),
    },
    ExposedPorts: Object.fromEntries(ports.map((port) => [port, {}])),
    HostConfig: {
      NetworkMode: options.network,
      // An empty port: the engine chooses a free one.
      PortBindings: Object.fromEntries(
        ports.map((port) => [port, [{ HostIp: "127.0.0.1", HostPort: "" }]]),
      ),
      Mounts: [
        // Anonymous: it is removed together with the container.
        { Type: "volume", Target: ENVIRONMENT_FOLDER },
        ...spec.volumes.map(({ name, path, readOnly }) => ({
          Type: "volume",
          Source: volumeName(name),
          Target: path,
          ReadOnly: readOnly === true,
        })),
      ],
      CapDrop: DROPPED,
      // The runner's packet filter closes the network for the agent's user.
      CapAdd: filtersPackets(spec) ? ["NET_ADMIN"] : [],
      SecurityOpt: ["no-new-privileges"],
      Ulimits: [ulimit("nofile", OPEN_FILES), ulimit("nproc", PROCESSES)],
      RestartPolicy: { Name: "no" },
      ...(cpu !== undefined && { NanoCpus: Math.round(cpu * 1e9) }),
      ...(memoryMiB !== undefined && { Memory: memoryMiB * MIB }),
      ...(pids !== undefined && { PidsLimit: pids }),
    },
  }
}

/** Docker accepts letters, digits, dots, dashes and underscores. The hexadecimal code keeps different names apart. */
export const volumeName = (name: string): string =>
  name.replaceAll(/[^\w.-]/g, (character) => `_x${character.codePointAt(0)?.toString(16)}_`)

const labels = z
  .record(z.string(), z.string())
  .nullish()
  .transform((found) => found ?? {})

const stateOf = (status: string): SandboxInfo["state"] => {
  switch (status) {
    case "running":
      return "running"
    case "paused":
      return "paused"
    case "restarting":
    case "initialized":
      return "starting"
    case "dead":
    case "removing":
      return "dead"
    default:
      return "stopped"
  }
}

const infoOf = (
  ref: string,
  status: string,
  createdAt: number,
  found: Readonly<Record<string, string>>,
): SandboxInfo => {
  const generation = Number(found[label("generation")] ?? Number.NaN)
  return {
    ref,
    state: stateOf(status),
    session: found[label("session")],
    generation: Number.isSafeInteger(generation) ? generation : undefined,
    createdAt: Number.isNaN(createdAt) ? undefined : createdAt,
    expiresAt: undefined,
  }
}

export const listedContainers = z.array(
  z
    .object({
      Names: z.array(z.string()).min(1),
      State: z.string(),
      /** In seconds. */
      Created: z.number(),
      Labels: labels,
    })
    .transform(({ Names, State, Created, Labels }) => ({
      info: infoOf(Names[0]?.replace(/^\//, "") ?? "", State, Created * 1000, Labels),
      labels: Labels,
    })),
)

const binding = z.array(z.object({ HostIp: z.string().optional(), HostPort: z.string() }))

export const inspectedContainer = z
  .object({
    Name: z.string(),
    /** With a time zone. */
    Created: z.string(),
    State: z.object({ Status: z.string() }),
    Config: z.object({ Labels: labels }),
    NetworkSettings: z.object({
      Ports: z
        .record(z.string(), binding.nullable())
        .nullish()
        .transform((ports) => ports ?? {}),
    }),
  })
  .transform(({ Name, Created, State, Config, NetworkSettings }) => ({
    // Seconds, as in the list: the engine's list has no more.
    info: infoOf(
      Name.replace(/^\//, ""),
      State.Status,
      Math.floor(Date.parse(Created) / 1000) * 1000,
      Config.Labels,
    ),
    /** It was made and never started: its environment may be missing. */
    isNew: State.Status === "created" || State.Status === "configured",
    gatewayPort: Number(Config.Labels[PORT_LABEL] || Number.NaN),
    ports: NetworkSettings.Ports,
  }))

/** Reads the body of an answer; undefined if it has another form. */
export const parsed =
  <Schema extends z.ZodType>(schema: Schema) =>
  ({ json }: HttpAnswer): z.output<Schema> | undefined =>
    schema.safeParse(json).data

export const withId = z.object({ Id: z.string().min(1) })
export const inspectedExec = z.object({ Running: z.boolean(), ExitCode: z.int().nullish() })

const HEADER = 8

/** The output of a command: frames of a stream number, a length of four bytes and the bytes. */
export const readOutput = (
  bytes: Uint8Array,
): { readonly stdout: string; readonly stderr: string } | undefined => {
  const parts = { stdout: [] as Uint8Array[], stderr: [] as Uint8Array[] }
  let at = 0
  while (at < bytes.length) {
    if (at + HEADER > bytes.length) return undefined
    const length = new DataView(bytes.buffer, bytes.byteOffset + at + 4, 4).getUint32(0)
    const end = at + HEADER + length
    if (end > bytes.length) return undefined
    const stream = bytes[at] === 2 ? parts.stderr : parts.stdout
    stream.push(bytes.subarray(at + HEADER, end))
    at = end
  }
  const text = (chunks: readonly Uint8Array[]) => new TextDecoder().decode(Buffer.concat(chunks))
  return { stdout: text(parts.stdout), stderr: text(parts.stderr) }
}

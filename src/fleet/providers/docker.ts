/**
 * Sandboxes as containers of Docker or Podman, over the Engine API on a unix socket. A sandbox's ref is the name of its
 * container. Its environment is a file on a volume of the container: it is in no snapshot and in no `docker inspect`.
 */
import type { z } from "zod"
import type { Clock } from "../../lib/clock.ts"
import { freePort } from "../../lib/free-port.ts"
import { withoutScreen } from "../core/shared-screen.ts"
import {
  limitNames,
  type ProviderResult,
  type SandboxProvider,
  type SandboxSpec,
} from "./contract.ts"
import {
  containerOf,
  filtersPackets,
  inspectedContainer,
  label,
  listedContainers,
  parsed,
  volumeName,
  withId,
} from "./docker-engine.ts"
import { runInContainer } from "./docker-exec.ts"
import { createByHttp } from "./create-not-found.ts"
import { createDockerSnapshots } from "./docker-snapshots.ts"
import {
  archiveOf,
  commandWithEnvironment,
  ENVIRONMENT_FILE,
  ENVIRONMENT_FOLDER,
  environmentScript,
  killCommand,
} from "./environment-file.ts"
import { createHttpApi, type HttpAnswer, type HttpCall } from "./http.ts"

export interface DockerProviderOptions {
  /** The unix socket of the engine. */
  readonly socket: string
  /** The network of the sandboxes: `bridge`, `host`, or the name of one that exists. */
  readonly network: string
  readonly clock: Clock
  /** How long the end of a command that has reached its limit may take. */
  readonly killMs?: number
}

type Container = z.output<typeof inspectedContainer>

const API = "/v1.41"
const NAME = /^[A-Za-z0-9][\w.-]{0,127}$/
const LONG_MS = 10 * 60_000

const ok = { is: "ok", value: undefined } as const
const missing = { is: "missing" } as const

export const createDockerProvider = (options: DockerProviderOptions): SandboxProvider => {
  const { clock, killMs = 5000 } = options
  const http = createHttpApi({
    base: `http://docker${API}`,
    unix: options.socket,
    secrets: () => [],
    clock,
  })
  const snapshots = createDockerSnapshots(http, clock)
  const container = (ref: string, call = "") => `/containers/${encodeURIComponent(ref)}${call}`

  const inspect = async (ref: string): Promise<ProviderResult<Container>> =>
    NAME.test(ref)
      ? http.call(
          { method: "GET", path: container(ref, "/json") },
          {
            // An id or the start of one also finds a container: only its name is a ref.
            read: (answer) => {
              const found = parsed(inspectedContainer)(answer)
              return found?.info.ref === ref && found.info.session !== undefined ? found : undefined
            },
          },
        )
      : missing

  const remove = async (ref: string): Promise<ProviderResult<void>> => {
    if (!NAME.test(ref)) return ok
    const removed = await http.done({
      method: "DELETE",
      path: container(ref),
      query: { force: "1", v: "1" },
      deadlineMs: LONG_MS,
    })
    if (removed.is !== "ok" && removed.is !== "missing") return removed
    return snapshots.release(ref)
  }

  /** A step of a create has failed. What was made is removed if the engine answers; otherwise the create is in doubt. */
  const giveUp = async (
    ref: string,
    call: HttpCall,
    answer: HttpAnswer,
  ): Promise<ProviderResult<never>> => {
    const result = http.resultOf(call, answer, { read: () => true })
    const why = "why" in result ? result.why : `${call.path}: not found`
    const removed = await remove(ref)
    if (removed.is === "ok") return { is: "refused", why }
    return result.is === "unknown" ? result : { is: "unknown", why }
  }

  const create = async (
    spec: SandboxSpec,
    limit: AbortSignal,
  ): Promise<ProviderResult<{ readonly ref: string }>> => {
    if (options.network === "host" && filtersPackets(spec))
      return {
        is: "refused",
        why: "SANDBOX_EGRESS=allow-list does not work in the network of the host: the packet filter would be that of the machine",
      }
    const gatewayPort = options.network === "host" ? freePort() : undefined
    const environment = {
      ...spec.environment,
      ...(gatewayPort !== undefined && {
        GATEWAY_HOST: "127.0.0.1",
        GATEWAY_PORT: String(gatewayPort),
        OPENCODE_URL: "http://127.0.0.1:0",
        // The image starts all services unless it is told which.
        SANDPIPER_SERVICES: withoutScreen(spec.environment["SANDPIPER_SERVICES"] || "all"),
      }),
    }
    const script = environmentScript(environment)
    if (script === undefined)
      return { is: "refused", why: "a variable of the sandbox has an unusable name or value" }
    const made = await createByHttp({
      api: http,
      call: {
        method: "POST",
        path: "/containers/create",
        query: { name: spec.name },
        json: containerOf(spec, { network: options.network, gatewayPort }),
        limit,
        deadlineMs: LONG_MS,
      },
      rules: { read: parsed(withId) },
      image: spec.image,
      noImage: `the image ${spec.image.id} is not on this machine: pull or build it, then try again`,
      lookAtSnapshot: () => snapshots.look(spec.image.id),
    })
    if (made.is !== "ok") return made
    const calls: readonly HttpCall[] = [
      {
        method: "PUT",
        path: container(spec.name, "/archive"),
        query: { path: ENVIRONMENT_FOLDER },
        headers: { "content-type": "application/x-tar" },
        body: archiveOf(ENVIRONMENT_FILE, script),
        secrets: Object.values(environment),
        limit,
      },
      { method: "POST", path: container(spec.name, "/start"), limit, deadlineMs: LONG_MS },
    ]
    for (const call of calls) {
      const answer = await http.send(call)
      if (answer.status === undefined) return { is: "unknown", why: answer.why }
      if (answer.status >= 400) return giveUp(spec.name, call, answer)
    }
    return { is: "ok", value: { ref: spec.name } }
  }

  return {
    name: "docker",
    can: {
      supportsPause: true,
      supportsAutoPause: false,
      snapshot: "copy",
      supportsMemorySnapshot: false,
      volumes: true,
      uniqueNames: true,
      limits: limitNames,
      exec: true,
      startsRunner: true,
      maxLifeMs: undefined,
      snapshotLifeMs: undefined,
    },
    list: async function* ({ deployment, session }) {
      const wanted = [
        `${label("deployment")}=${deployment}`,
        ...(session === undefined ? [] : [`${label("session")}=${session}`]),
      ]
      const found = await http.call(
        {
          method: "GET",
          path: "/containers/json",
          query: { all: "1", filters: JSON.stringify({ label: wanted }) },
        },
        { read: parsed(listedContainers) },
      )
      if (found.is !== "ok")
        throw new Error("why" in found ? found.why : "the engine has no list of containers")
      for (const { info, labels } of found.value) {
        if (labels[label("deployment")] !== deployment) continue
        if (session === undefined || info.session === session) yield info
      }
    },
    look: async (ref) => {
      const found = await inspect(ref)
      return found.is === "ok" ? { is: "ok", value: found.value.info } : found
    },
    create,
    pause: async (ref) => {
      if (!NAME.test(ref)) return missing
      const call = { method: "POST", path: container(ref, "/pause") } as const
      const answer = await http.send(call)
      const result = http.resultOf(call, answer, { read: () => true })
      if (result.is === "ok") return ok
      if (result.is === "missing" || answer.status === undefined) return result
      // Docker and Podman refuse to pause what is paused or stopped, each in its own words.
      const found = await inspect(ref)
      const rests =
        found.is === "ok" &&
        (found.value.info.state === "paused" || found.value.info.state === "stopped")
      return rests ? ok : result
    },
    resume: async (ref) => {
      const found = await inspect(ref)
      if (found.is !== "ok") return found
      if (found.value.isNew) {
        // A create that was given up: it has no work in it, and perhaps no environment.
        const removed = await remove(ref)
        return removed.is === "ok" ? missing : removed
      }
      const { state } = found.value.info
      if (state === "running" || state === "starting") return { is: "ok", value: {} }
      const path = container(ref, state === "paused" ? "/unpause" : "/start")
      const done = await http.done({ method: "POST", path, deadlineMs: LONG_MS })
      return done.is === "ok" ? { is: "ok", value: {} } : done
    },
    snapshot: (ref, kind, limit) =>
      NAME.test(ref) ? snapshots.snapshot(ref, kind, limit) : Promise.resolve(missing),
    removeSnapshot: snapshots.removeSnapshot,
    listSnapshots: snapshots.listSnapshots,
    terminate: remove,
    keepAlive: async (ref) => {
      const found = await inspect(ref)
      return found.is === "ok" ? ok : found
    },
    address: async (ref, port) => {
      const found = await inspect(ref)
      if (found.is !== "ok") return found
      const { gatewayPort, ports, info } = found.value
      if (info.state !== "running") return { is: "refused", why: `the sandbox is ${info.state}` }
      const [published] = ports[`${port}/tcp`] ?? []
      const open = Number.isNaN(gatewayPort) ? published?.HostPort : String(gatewayPort)
      if (open === undefined || open === "")
        return { is: "refused", why: `the sandbox has no port ${port}` }
      return { is: "ok", value: { url: `http://127.0.0.1:${open}`, headers: {} } }
    },
    exec: async (ref, command, limit) => {
      if (!NAME.test(ref)) return missing
      if (command.argv[0] === "/start.sh") {
        const path = container(ref, "/restart")
        const done = await http.done({ method: "POST", path, query: { t: "5" }, limit })
        return done.is === "ok"
          ? { is: "ok", value: { exitCode: 0, stdout: "", stderr: "" } }
          : done
      }
      const mark = `command-${crypto.randomUUID()}`
      const env = Object.entries(command.environment ?? {}).map(
        ([name, value]) => `${name}=${value}`,
      )
      const argv = commandWithEnvironment(mark, command.argv)
      const result = await runInContainer(
        { http, clock },
        ref,
        argv,
        { cwd: command.cwd, env },
        limit,
      )
      if (limit.aborted)
        await runInContainer(
          { http, clock },
          ref,
          killCommand(mark),
          {},
          AbortSignal.timeout(killMs),
        )
      return result
    },
    removeVolume: async (name) => {
      const path = `/volumes/${encodeURIComponent(volumeName(name))}`
      const done = await http.done({ method: "DELETE", path })
      return done.is === "missing" ? ok : done
    },
    health: () => http.done({ method: "GET", path: "/_ping" }),
  }
}

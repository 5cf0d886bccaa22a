/** The operations on services, on the preview and on the website. */
import { readdir } from "node:fs/promises"
import { join } from "node:path"
import { type Clock, sleep } from "../../lib/clock.ts"
import { readRegularFile } from "../../lib/untrusted-files.ts"
import type { SandboxHandlers } from "../../wire/operations/index.ts"
import { ApiError } from "../gateway/api-error.ts"
import { asApiErrors } from "./secret-operations.ts"
import { type AppServices, FREE_PORT, type ServiceView } from "./services/app-services.ts"
import { planWebsite, staticTemplate } from "./services/website.ts"
import { pathOf, type Tunnels } from "./tunnels.ts"
import { type Owner, withFolder, type WorkPlace, writeNewFile } from "./workspace-files.ts"

export interface ServiceOperationPorts extends WorkPlace {
  readonly services: AppServices
  readonly tunnels: Tunnels
  readonly owner: Owner | undefined
  /** The address of the gateway as clients see it. */
  readonly publicUrl: () => string | undefined
  readonly clock: Clock
}

const PREVIEW = "preview"
const WEBSITE = "web"
const WAIT_SECONDS = 120
const POLL_MS = 100
const MANIFEST_BYTES = 1024 * 1024

export const serviceOperations = (ports: ServiceOperationPorts) => {
  const { services, tunnels, clock } = ports

  const expose = (port: number): string => {
    const refused = tunnels.register({ name: PREVIEW, port, protocol: "auto" })
    if (refused) throw new ApiError(409, "port-taken", refused.reason)
    return `${ports.publicUrl() ?? ""}${pathOf(PREVIEW)}/`
  }

  /** Waits until the website listens, and exposes the port that it really uses. */
  const exposeWebsite = async (waitSeconds = WAIT_SECONDS) => {
    const until = clock.now() + waitSeconds * 1000
    for (;;) {
      const service = viewOf(services, WEBSITE)
      const [port] = service.listening
      if (port !== undefined) return { service, port, containerUrl: expose(port) }
      if (clock.now() >= until || hasEnded(service)) {
        return { service, port: null, containerUrl: null }
      }
      await sleep(clock, POLL_MS)
    }
  }

  return {
    "list-services": async () => ({
      services: services.list().map(plain),
      exposedPort: tunnels.find(PREVIEW)?.port ?? null,
    }),
    "start-service": async ({ name, command, cwd = ".", port }) => ({
      service: plain(await services.start({ name, command, cwd, port })),
    }),
    "restart-service": async ({ name }) => ({ service: plain(await services.restart(name)) }),
    "stop-service": async ({ name }) => {
      if (!(await services.stop(name))) throw noService(name)
      return { ok: true }
    },
    "expose-port": async ({ port }) => ({ ok: true, port, containerUrl: expose(port) }),
    "bootstrap-website": async ({ directory = ".", template, waitSeconds }) => {
      const folder = await asApiErrors(async () => {
        if (template === "static") await writeTemplate(ports, directory)
        return readFolder(ports, directory)
      })
      const plan = planWebsite(folder)
      if (typeof plan === "string") throw new ApiError(400, "bad-input", `directory: ${plan}`)
      await services.start({
        name: WEBSITE,
        command: `export PORT="\${PORT:-$${FREE_PORT}}"; ${plan.command}`,
        cwd: directory,
        port: undefined,
      })
      return exposeWebsite(waitSeconds)
    },
    "restart-dev-server": async ({ waitSeconds }) => {
      await services.restart(WEBSITE)
      return exposeWebsite(waitSeconds)
    },
  } satisfies Partial<SandboxHandlers>
}

const plain = (service: ServiceView) => ({ ...service, listening: [...service.listening] })

const hasEnded = ({ status }: ServiceView): boolean => status === "failed" || status === "stopped"

const viewOf = (services: AppServices, name: string) => {
  const view = services.find(name)
  if (view === undefined) throw noService(name)
  return plain(view)
}

const noService = (name: string) => new ApiError(404, "not-found", `there is no service ${name}`)

const readFolder = (ports: ServiceOperationPorts, directory: string) =>
  withFolder(ports, directory, async (folder) => {
    const entries = await readdir(folder.self)
    if (!entries.includes("package.json")) return { entries, manifest: undefined }
    const limits = { maxBytes: MANIFEST_BYTES, reader: ports.owner }
    const bytes = await readRegularFile(folder.entry("package.json"), limits)
    try {
      const manifest: unknown = JSON.parse(bytes.toString("utf8"))
      return { entries, manifest }
    } catch {
      throw new ApiError(400, "bad-input", `directory: package.json is not valid JSON`)
    }
  })

/** Creates the files of the template. A folder with a file of one of these names is refused. */
const writeTemplate = async (ports: ServiceOperationPorts, directory: string) => {
  for (const [name, text] of Object.entries(staticTemplate)) {
    await writeNewFile(ports, join(directory, name), text, ports.owner)
  }
}

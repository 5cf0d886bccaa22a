/** Routes that are passed on to the gateway of a session's sandbox, with a control token. A sleeping sandbox is woken. */
import { signControlToken } from "../../lib/control-token.ts"
import type { RouteName } from "../core/routes.ts"
import type { StoredSession } from "../store/ports.ts"
import {
  type ApiCall,
  ApiError,
  type ApiParts,
  gatewayAddressOf,
  type Handler,
  MAX_WAIT_MS,
  refuseEnded,
} from "./api-call.ts"

type Name = Extract<RouteName, "file-list" | "file-read" | "upload" | "exec">

const UPLOADS = "uploads"
const CALL_MS = 130_000
const MAX_UPLOAD = 100 * 1024 * 1024

/** Only the last part of the name, in letters that every file system has. */
const safeName = (name: string, index: number): string => {
  const last = name.split(/[/\\]/).at(-1) ?? ""
  const safe = last
    .replaceAll(/[^\w.-]+/g, "_")
    .replace(/^\.+/, "")
    .slice(-120)
  return safe === "" ? `file-${index + 1}` : safe
}

export const gatewayRoutes = (parts: ApiParts): Readonly<Record<Name, Handler>> => {
  const { keeper, provider, hub, now } = parts

  const awake = async (session: StoredSession): Promise<StoredSession> => {
    refuseEnded(session)
    await keeper.want(session.id, "running")
    const isThere = ({ life }: StoredSession) => life.phase === "running" || life.failed
    const found = await keeper.waitFor(session.id, isThere, AbortSignal.timeout(MAX_WAIT_MS))
    if (found?.life.phase === "running") return found
    const why = found?.life.lastError ?? "it takes longer than expected"
    throw new ApiError(503, "no-sandbox", `the sandbox was not started: ${why}`, 10)
  }

  const keyOf = async ({ id, kind, environment, life }: StoredSession): Promise<string> => {
    const key =
      kind === "external" ? environment["JWT_SECRET"] : await hub.gatewayKey(id, life.generation)
    if (key === undefined)
      throw new ApiError(
        501,
        "no-gateway-key",
        "the hub has no gateway secret: set HUB_GATEWAY_SECRET",
      )
    return key
  }

  const pass = async (
    { session: given, request }: ApiCall,
    method: string,
    path: string,
    body?: string | Blob,
  ): Promise<Response> => {
    const session = await awake(given)
    const address = await gatewayAddressOf(provider, session)
    if (!address)
      throw new ApiError(503, "no-address", "the sandbox has no address at the moment", 5)
    const token = await signControlToken({
      key: await keyOf(session),
      sessionId: session.id,
      jti: crypto.randomUUID(),
      now: now(),
    })
    const type = request.headers.get("content-type")
    const response = await fetch(`${address.url}${path}`, {
      method,
      headers: {
        ...address.headers,
        authorization: `Bearer ${token}`,
        ...(typeof body === "string" && type !== null && { "content-type": type }),
      },
      ...(body !== undefined && { body }),
      signal: AbortSignal.timeout(CALL_MS),
      redirect: "manual",
    })
    // Content of the sandbox must never run as a page of the fleet's origin.
    const headers = new Headers({ "x-content-type-options": "nosniff" })
    headers.set("content-type", response.headers.get("content-type") ?? "application/octet-stream")
    headers.set("content-security-policy", "sandbox; default-src 'none'")
    return new Response(response.body, { status: response.status, headers })
  }

  const pathOf = ({ url }: ApiCall): string =>
    encodeURIComponent(url.searchParams.get("path") ?? ".")

  return {
    "file-list": (call) => pass(call, "GET", `/v1/fs/entries?path=${pathOf(call)}`),
    "file-read": (call) => pass(call, "GET", `/v1/fs/file?path=${pathOf(call)}`),
    upload: async (call) => {
      const form = await call.request.formData().catch(() => undefined)
      const files = form ? [...form.values()].filter((one) => one instanceof File) : []
      if (files.length === 0)
        throw new ApiError(400, "bad-request", "send files as multipart/form-data")
      if (files.reduce((sum, { size }) => sum + size, 0) > MAX_UPLOAD)
        throw new ApiError(413, "too-large", "the files of one upload may have 100 MB in all")
      const paths: string[] = []
      for (const [index, file] of files.entries()) {
        const path = `${UPLOADS}/${safeName(file.name, index)}`
        const stored = await pass(call, "PUT", `/v1/fs/file?path=${encodeURIComponent(path)}`, file)
        if (!stored.ok) return stored
        await stored.text()
        paths.push(path)
      }
      return { paths }
    },
    exec: (call) => pass(call, "POST", "/v1/processes/run", call.body),
  }
}

/** The page of `serve`: the hub serves it on a host name of its own. Sandboxes are on other hosts or ports. */
import { openPageLogins } from "../hub/page-logins.ts"
import type { HubOptions } from "../hub/hosts/bun/hub-options.ts"
import { assetResponse, type PageFiles } from "../lib/page/asset-response.ts"
import { originFor } from "../runner/gateway/hosts.ts"
import type { Settings } from "../settings/settings.ts"
import { newLoginLink } from "./page-link.ts"

/** Sandboxes on this machine have ports that are not known before they start. The page reaches them by names below its own. */
const localSandboxes = (page: string) => `http://*.${page}:*`

/** Undefined where the page is not built. */
export const servePage = (
  {
    pageOrigin,
    sandboxOrigin,
    stateDir,
  }: Pick<Settings, "pageOrigin" | "sandboxOrigin" | "stateDir">,
  files: PageFiles | undefined,
  token: string,
): (NonNullable<HubOptions["page"]> & { readonly origin: string }) | undefined => {
  if (pageOrigin === undefined || files === undefined) return undefined
  const { hostname } = new URL(pageOrigin)
  return {
    origin: pageOrigin,
    host: hostname,
    token,
    logins: openPageLogins(stateDir, Date.now),
    frames: [
      // A policy can only leave out whole labels of a host.
      ...(sandboxOrigin === undefined ? [] : [sandboxOrigin.replace(/\*--[^.:/]+/, "*")]),
      ...(hostname.endsWith(".localhost") ? [localSandboxes(hostname)] : []),
    ],
    newLink: (port) => newLoginLink(stateDir, originFor(pageOrigin, `:${port}`), Date.now()),
    file: async ({ headers }, path) => {
      const file = files.get(path)
      if (!file) return undefined
      const answer = assetResponse((name) => headers.get(name) ?? undefined, file, {})
      return new Response(answer.body, { status: answer.status, headers: answer.headers })
    },
  }
}

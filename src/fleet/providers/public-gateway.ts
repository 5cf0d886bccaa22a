/** The address of a sandbox's gateway for browsers and other programs: they do not send the headers of a provider. */
import { GATEWAY_PORT } from "../core/names.ts"
import type { ProviderResult, SandboxProvider } from "./contract.ts"

/** Refused: the provider has no address that works without headers. */
export const publicGateway = async (
  provider: Pick<SandboxProvider, "address" | "publicAddress">,
  ref: string,
): Promise<ProviderResult<string>> => {
  const found = await (provider.publicAddress ?? provider.address)(ref, GATEWAY_PORT)
  if (found.is !== "ok") return found
  const { url, headers } = found.value
  return Object.keys(headers).length === 0
    ? { is: "ok", value: url.replace(/\/$/, "") }
    : { is: "refused", why: "the sandbox is reached with headers only" }
}

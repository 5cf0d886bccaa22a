/** Chooses the sandbox provider of a deployment by its type. An unknown or missing type fails at once. */
import { type ProviderName, providerNames, type SandboxProvider } from "./contract.ts"

/** A provider that is loaded when it is chosen. A type without a maker is not part of this build. */
export type ProviderMakers = {
  readonly [Name in ProviderName]?: () => SandboxProvider | Promise<SandboxProvider>
}

export const chooseProvider = async (
  type: string | undefined,
  makers: ProviderMakers,
): Promise<SandboxProvider> => {
  const available = providerNames.filter((name) => makers[name] !== undefined)
  const name = available.find((one) => one === type)
  const maker = name && makers[name]
  if (!maker) {
    const given = type === undefined || type === "" ? "is not set" : `is "${type}"`
    throw new Error(`SANDBOX_PROVIDER ${given}: set it to one of ${available.join(", ")}`)
  }
  return maker()
}

/**
 * Sandboxes with an image of their own: they get the image's name, and the address at which they reach the hub. Those of
 * another session agent keep its address.
 */
import { imageEnvironment } from "../../settings/reaches.ts"
import type { SandboxProvider, SandboxSpec } from "./contract.ts"

export interface ElsewhereOptions {
  /** The image of sandboxes that are not restored from a snapshot. */
  readonly image: string
  /** The hub's address for sandboxes, such as `wss://hub.example.com`. Absent: the one in the spec. */
  readonly hubUrl: string | undefined
}

/** The same path at another host. */
const moved = (url: string, to: string): string => {
  const { pathname, search } = new URL(url)
  return new URL(`${pathname}${search}`, to).href
}

export const specElsewhere = (spec: SandboxSpec, options: ElsewhereOptions): SandboxSpec => {
  const link = spec.environment["DO_WS_URL"]
  return {
    ...spec,
    image: spec.image.kind === "image" ? { kind: "image", id: options.image } : spec.image,
    environment: {
      ...imageEnvironment(spec.environment),
      ...(link !== undefined &&
        options.hubUrl !== undefined &&
        spec.hasForeignLink !== true && { DO_WS_URL: moved(link, options.hubUrl) }),
    },
  }
}

export const elsewhere = (
  provider: SandboxProvider,
  options: ElsewhereOptions,
): SandboxProvider => ({
  ...provider,
  create: (spec, limit) => provider.create(specElsewhere(spec, options), limit),
})

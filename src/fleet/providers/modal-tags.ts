/** Tags of Modal's sandboxes: the labels of the fleet, and two times that the SDK does not return. Pure. */
import { type CloudLabels, ownerOf, toCloudLabels } from "./cloud-labels.ts"
import type { SandboxInfo, SandboxLabels } from "./contract.ts"

const CREATED = "sandpiper-created"
const EXPIRES = "sandpiper-expires"

/** The value of a tag has few characters. Another value is encoded, and so is one that looks encoded. */
const PLAIN = /^(?!b64\.)[A-Za-z0-9_.-]{1,63}$/
const encode = (value: string): string =>
  PLAIN.test(value) ? value : `b64.${Buffer.from(value).toString("base64url")}`
const decode = (value: string): string =>
  value.startsWith("b64.") ? Buffer.from(value.slice(4), "base64url").toString() : value

const mapValues = (tags: CloudLabels, change: (value: string) => string): Record<string, string> =>
  Object.fromEntries(Object.entries(tags).map(([name, value]) => [name, change(value)]))

export const encodeTags = (labels: CloudLabels): Record<string, string> => mapValues(labels, encode)

export const modalTags = (
  labels: SandboxLabels,
  now: number,
  lifeMs: number,
): Record<string, string> => ({
  ...encodeTags(toCloudLabels(labels)),
  [CREATED]: String(now),
  [EXPIRES]: String(now + lifeMs),
})

const timeIn = (text: string | undefined): number | undefined =>
  text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : undefined

/** Only of a sandbox that runs: finished ones are not seen. */
export const modalInfo = (ref: string, encoded: CloudLabels): SandboxInfo => {
  const tags = mapValues(encoded, decode)
  return {
    ref,
    state: "running",
    ...ownerOf(tags),
    createdAt: timeIn(tags[CREATED]),
    expiresAt: timeIn(tags[EXPIRES]),
  }
}

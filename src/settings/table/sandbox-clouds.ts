/** Settings of `serve` for sandboxes in a cloud: the account there. Their image is SANDBOX_IMAGE. */
import { z } from "zod"
import { endpointUrl, someText } from "../fields.ts"
import type { SettingGroup } from "../setting.ts"

const host = z
  .string()
  .regex(/^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/i, "must be a domain, such as e2b.app")

export const sandboxCloudSettings = {
  modalTokenId: {
    env: "MODAL_TOKEN_ID",
    reaches: [],
    doc: "the id of the token for Modal's sandboxes",
    schema: someText.optional(),
  },
  modalTokenSecret: {
    env: "MODAL_TOKEN_SECRET",
    reaches: [],
    doc: "the secret of the token for Modal's sandboxes",
    schema: someText.optional(),
    secret: true,
  },
  modalApp: {
    env: "MODAL_APP",
    reaches: [],
    doc: "the app at Modal that owns the sandboxes; it is created",
    schema: z.string().regex(/^[\w.-]{1,64}$/, "must be a name of letters, digits and dashes"),
    fallback: () => "sandpiper",
  },
  modalEnvironment: {
    env: "MODAL_ENVIRONMENT",
    reaches: [],
    doc: "the environment at Modal; the workspace's default if it is not set",
    schema: someText.optional(),
  },
  e2bApiKey: {
    env: "E2B_API_KEY",
    reaches: [],
    doc: "the key for E2B's sandboxes",
    schema: someText.optional(),
    secret: true,
  },
  e2bDomain: {
    env: "E2B_DOMAIN",
    reaches: [],
    doc: "the domain of E2B and of its sandboxes",
    schema: host,
    fallback: () => "e2b.app",
  },
  e2bApiUrl: {
    env: "E2B_API_URL",
    reaches: [],
    doc: "the address of E2B's API, if it is not below its domain",
    schema: endpointUrl.optional(),
  },
  e2bSandboxUrl: {
    env: "E2B_SANDBOX_URL",
    reaches: [],
    doc: "one address for all E2B sandboxes, if they have none of their own",
    schema: endpointUrl.optional(),
  },
  daytonaApiKey: {
    env: "DAYTONA_API_KEY",
    reaches: [],
    doc: "the key for Daytona's sandboxes",
    schema: someText.optional(),
    secret: true,
  },
  daytonaApiUrl: {
    env: "DAYTONA_API_URL",
    reaches: [],
    doc: "the address of Daytona's API",
    schema: endpointUrl,
    fallback: () => "https://app.daytona.io/api",
  },
  daytonaTarget: {
    env: "DAYTONA_TARGET",
    reaches: [],
    doc: "the region of Daytona's sandboxes; the organization's default if it is not set",
    schema: someText.optional(),
  },
} satisfies SettingGroup

/** Settings of access to the session agent that `up` starts. None is needed: `up` has one owner and its own token. */
import { z } from "zod"
import { someText, urlWith } from "../fields.ts"
import type { SettingGroup } from "../setting.ts"

export const accessSettings = {
  hubJwtSecret: {
    env: "HUB_JWT_SECRET",
    reaches: [],
    doc: "key of people's JWTs for the session agent (HS256), at least 32 characters",
    schema: z.string().min(32, "must be at least 32 characters long").optional(),
    secret: true,
  },
  hubJwksUrl: {
    env: "HUB_JWKS_URL",
    reaches: [],
    doc: "instead of HUB_JWT_SECRET: key set of an identity provider (RS256, ES256)",
    schema: urlWith("must be an http:// or https:// URL", (url) =>
      /^https?:$/.test(url.protocol),
    ).optional(),
  },
  hubJwtIssuer: {
    env: "HUB_JWT_ISSUER",
    reaches: [],
    doc: "issuer that people's JWTs must name; required with HUB_JWKS_URL",
    schema: someText.optional(),
  },
  hubJwtAudience: {
    env: "HUB_JWT_AUDIENCE",
    reaches: [],
    doc: "audience that people's JWTs must name; required with HUB_JWKS_URL",
    schema: someText.optional(),
  },
  hubEncryptionKey: {
    env: "HUB_ENCRYPTION_KEY",
    reaches: [],
    doc: "key of the stored configs, 32 bytes of base64; several as id:key,id:key (default: a key file)",
    schema: someText.optional(),
    secret: true,
  },
} satisfies SettingGroup

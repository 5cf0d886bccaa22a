/** What both kinds of objects read from the deployment's secrets and variables. */
import { type Keyring, readKeyring } from "../../access/encrypt.ts"
import { createJwtVerifier, type JwtVerifier } from "../../access/verify-jwt.ts"
import { hashOf } from "../../keys.ts"
import { configureObjectStorage, type ObjectStorage } from "../../object-storage.ts"
import { z } from "zod"
import type { WrongSecrets } from "../../access/wrong-secrets.ts"
import { ADDRESS_HEADER } from "../../page-door.ts"
import { callObject } from "./object-calls.ts"
import { DIRECTORY_NAME } from "./remote-directory.ts"
import type { DurableEnvironment } from "./runtime-types.ts"

export const verifierOf = (environment: DurableEnvironment): JwtVerifier | undefined => {
  const { HUB_JWT_SECRET, HUB_JWKS_URL, HUB_JWT_ISSUER, HUB_JWT_AUDIENCE } = environment
  return createJwtVerifier(
    {
      secret: HUB_JWT_SECRET,
      jwksUrl: HUB_JWKS_URL,
      issuer: HUB_JWT_ISSUER,
      audience: HUB_JWT_AUDIENCE,
    },
    { now: () => Date.now(), fetch: (url, init) => fetch(url, init) },
  )
}

export const keyringOf = (environment: DurableEnvironment): Keyring | undefined => {
  const { HUB_ENCRYPTION_KEY } = environment
  return HUB_ENCRYPTION_KEY ? readKeyring(HUB_ENCRYPTION_KEY) : undefined
}

export const durableStorage = (environment: DurableEnvironment): ObjectStorage | undefined => {
  const { S3_ENDPOINT, S3_REGION, S3_BUCKET, S3_ACCESS_KEY_ID, S3_SECRET_ACCESS_KEY } = environment
  const variables = { S3_ENDPOINT, S3_REGION, S3_BUCKET, S3_ACCESS_KEY_ID, S3_SECRET_ACCESS_KEY }
  return configureObjectStorage(variables, () => Date.now())
}

/** Origins of web pages that may call the hub. */
export const originsOf = ({ ALLOWED_ORIGINS }: DurableEnvironment): readonly string[] =>
  ALLOWED_ORIGINS?.split(",").map((origin) => origin.trim()) ?? []

/** The network address of a caller, as Cloudflare states it. */
export const addressOf = (request: Request): string | undefined =>
  request.headers.get(ADDRESS_HEADER) ?? undefined

/** Wrong secrets are counted in one place, for all objects. */
export const countedInDirectory =
  ({ DIRECTORY }: DurableEnvironment): WrongSecrets =>
  (address) =>
    callObject(DIRECTORY, DIRECTORY_NAME, z.boolean(), "wrongSecret", [address])

/** How the HTTP API knows its callers. */
export const callerChecks = async (environment: DurableEnvironment) => ({
  clientTokenHash: environment.CLIENT_TOKEN ? await hashOf(environment.CLIENT_TOKEN) : undefined,
  allowedOrigins: originsOf(environment),
  from: addressOf,
  wrongSecrets: countedInDirectory(environment),
  now: () => Date.now(),
})

/** What the modules of one session's Durable Object share. */
import type { Directory } from "../../access/directory.ts"
import type { Keyring } from "../../access/encrypt.ts"
import type { GuardPorts, HostedSession } from "../../access/guarded-clients.ts"
import type { Owner } from "../../access/ownership.ts"
import type { JwtVerifier } from "../../access/verify-jwt.ts"
import type { ConfiguredChats } from "../../adapters/configured-chats.ts"
import type { Provision } from "../../provision.ts"
import type { ArtifactObjects } from "../../session/ports.ts"
import type { DurableBlobs } from "./blobs.ts"
import type { DurableEnvironment, DurableState } from "./runtime-types.ts"
import type { DurableSockets } from "./sockets.ts"

export interface ObjectContext {
  readonly state: DurableState
  readonly environment: DurableEnvironment
  readonly sockets: DurableSockets
  readonly blobs: DurableBlobs
  readonly directory: Directory
  readonly chats: ConfiguredChats
  readonly verifyJwt: JwtVerifier | undefined
  readonly guardPorts: GuardPorts
  readonly objects: ArtifactObjects | undefined
  readonly keyring: () => Keyring | undefined
  /** The name of the object, which is the id of its session; empty before the session is created. */
  readonly name: () => string
  /** Undefined until the session is created. */
  readonly hosted: () => HostedSession | undefined
  /** Makes the session if it does not exist, and sets what is given. */
  readonly provision: (name: string, owner: Owner, fields: Provision) => Promise<void>
  /** Ends the session and its descendants. */
  readonly end: (why: string, quiet?: boolean) => Promise<void>
  /** Ends the descendants of the session. */
  readonly endChildren: () => Promise<void>
  /** Closes the connections that may not read the session any more. */
  readonly checkConnections: () => void
}

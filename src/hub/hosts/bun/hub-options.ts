/** What the Bun host is started with, and what it gives to the program that started it. */
import type { WrongSecrets } from "../../access/wrong-secrets.ts"
import type { Clock } from "../../../lib/clock.ts"
import type { Log } from "../../../lib/log.ts"
import type { GitCredentials, Outbound, RequestFrame } from "../../../wire/frames/index.ts"
import type { Authentication } from "../../access/authenticate.ts"
import type { Directory } from "../../access/directory.ts"
import type { HostedSession } from "../../access/guarded-clients.ts"
import type { Owner } from "../../access/ownership.ts"
import type { JwtSettings } from "../../access/verify-jwt.ts"
import type { ConfiguredChats } from "../../adapters/configured-chats.ts"
import type { LocalSessions } from "../../local-sessions-port.ts"
import type { ObjectStorage } from "../../object-storage.ts"
import type { HubPage } from "../../page-door.ts"
import type { Provision, WarmSessions } from "../../provision.ts"
import type { DecisionOutcome, ExecutionDecision, SessionActivity } from "../../session/ports.ts"
import type { Session } from "../../session/session.ts"
import type { Personas } from "../../shared-store/personas.ts"

export interface HubOptions {
  readonly stateDir: string
  readonly port?: number
  /** The address that the server listens on; 127.0.0.1 if it is not given. */
  readonly hostname?: string | undefined
  /** Host names besides loopback that requests may have, such as the public one. */
  readonly names?: readonly string[] | undefined
  readonly clock: Clock
  readonly log: Log
  /** The operator's token. */
  readonly clientToken: string
  /** How people prove who they are; nothing set: only the operator, API keys and share links. */
  readonly jwt?: JwtSettings
  /** `HUB_ENCRYPTION_KEY`; a file in the state directory if it is not set. */
  readonly encryptionKey?: string | undefined
  /** The key that a session's gateway checks. */
  readonly gatewayKey?: (session: string, generation: number) => Promise<string>
  /** The address of the gateway of a session's sandbox, if a control plane knows it; null: the sandbox does not run. */
  readonly gatewayUrl?: ((session: string) => Promise<string | null | undefined>) | undefined
  readonly allowedOrigins?: readonly string[]
  readonly answer: (session: string, frame: RequestFrame) => Promise<Record<string, unknown>>
  readonly workflowReported: (
    session: HostedSession,
    executionId: string,
    envelope: Outbound<"workflow-execution-result">["envelope"],
    reportId: string,
  ) => void
  readonly decideExecution: (
    session: string,
    decision: ExecutionDecision,
  ) => Promise<DecisionOutcome>
  readonly ended: (session: string) => void
  /** The session goes on with a new conversation when its runner has completed it. */
  readonly staysOpen?: (session: string) => boolean
  readonly personas?: (owner: Owner) => Personas
  readonly setHandle?: (owner: Owner, handle: string, session: string) => void
  /** Sessions that this hub starts on its own machine. Read late, because they need the hub. */
  readonly localSessions?: (() => LocalSessions | undefined) | undefined
  /** Absent: the limit of the gateway, per address, in memory. */
  readonly wrongSecrets?: WrongSecrets | undefined
  readonly terminate: (session: string) => Promise<void>
  readonly hook: (trigger: string, request: Request) => Promise<Response>
  readonly chats?: ConfiguredChats | undefined
  /** Object storage for files that agents show. */
  readonly storage?: ObjectStorage | undefined
  /** Called when the activity of a session has changed, and once after it was opened. */
  readonly activity?: ((session: string, now: SessionActivity) => void) | undefined
  /** What git uses in the sandboxes of an owner, if a control plane starts them. */
  readonly gitCredentials?: ((owner: Owner) => GitCredentials) | undefined
  /** Sessions whose sandboxes run already, if a control plane keeps some ready. */
  readonly warmSessions?: WarmSessions | undefined
  /** The page on a host name of its own; `newLink` makes a login link. */
  readonly page?:
    | (HubPage & { readonly host: string; readonly newLink: (port: number) => string })
    | undefined
  /** Routes of another module in the same server. Undefined: the request is the hub's. */
  readonly routes?: ((request: Request) => Promise<Response | undefined>) | undefined
}

export interface Hub {
  readonly port: number
  readonly url: string
  /** The WebSocket URL for a session's runner. */
  readonly runnerUrl: (session: string) => string
  readonly find: (id: string) => Session | undefined
  readonly hosted: (id: string) => HostedSession | undefined
  readonly directory: Directory
  /** Who sends this request: the operator, or a person with a JWT or an API key. */
  readonly authenticate: (request: Request) => Promise<Authentication>
  /** The existing session, or a new one of this owner; `ancestors` begins with its parent. */
  readonly create: (
    id: string,
    owner?: Owner,
    ancestors?: readonly string[],
    creator?: string,
  ) => Session
  /** Makes the session if it does not exist, and sets what is given. */
  readonly provision: (id: string, owner: Owner, fields: Provision) => Promise<void>
  /** Gives a session of the warm pool to an owner. Undefined if it is done, otherwise why it is refused. */
  readonly handOver: (id: string, owner: Owner, creator?: string) => string | undefined
  /** Closes every connection and every file. Written data stays. */
  readonly stop: () => Promise<void>
}

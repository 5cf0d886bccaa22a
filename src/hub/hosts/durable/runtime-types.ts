/** The types of the Workers runtime that the Durable Objects use. The official types clash with Bun's. */

export interface DurableSocket {
  readonly send: (text: string) => void
  readonly close: (code: number, reason: string) => void
  readonly serializeAttachment: (value: unknown) => void
  readonly deserializeAttachment: () => unknown
}

export interface DurableState {
  readonly storage: {
    readonly sql: {
      readonly exec: (
        query: string,
        ...values: readonly (string | number | null | ArrayBuffer)[]
      ) => { readonly toArray: () => Record<string, unknown>[] }
      readonly databaseSize: number
    }
    readonly transactionSync: <Result>(work: () => Result) => Result
    readonly setAlarm: (at: number) => Promise<void>
    readonly deleteAlarm: () => Promise<void>
  }
  readonly acceptWebSocket: (socket: DurableSocket, tags: readonly string[]) => void
  readonly getWebSockets: (tag?: string) => DurableSocket[]
  readonly setWebSocketAutoResponse: (pair: object) => void
  /** Requests wait until the work is done. */
  readonly blockConcurrencyWhile: <Result>(work: () => Promise<Result>) => Promise<Result>
  readonly waitUntil: (work: Promise<unknown>) => void
}

export interface DurableNamespace {
  readonly idFromName: (name: string) => unknown
  readonly get: (id: unknown) => { readonly fetch: (request: Request) => Promise<Response> }
}

export interface DurableEnvironment {
  readonly SESSIONS: DurableNamespace
  /** One object per owner. */
  readonly SHARED_STORE: DurableNamespace
  /** One object: the index of sessions, API keys, the audit log. */
  readonly DIRECTORY: DurableNamespace
  /** How people prove who they are: a shared secret (HS256), or a key set with issuer and audience. */
  readonly HUB_JWT_SECRET?: string
  readonly HUB_JWKS_URL?: string
  readonly HUB_JWT_ISSUER?: string
  readonly HUB_JWT_AUDIENCE?: string
  /** Encrypts the configs at rest: 32 bytes of base64. Without it no config is stored. */
  readonly HUB_ENCRYPTION_KEY?: string
  /** Each session's gateway key is derived from it; without it there are no links to the sandbox's gateway. */
  readonly HUB_GATEWAY_SECRET?: string
  /** The operator's token. Without it there is no operator. */
  readonly CLIENT_TOKEN?: string
  /** For pull requests and repositories. */
  /** Of the operator's own sessions. */
  readonly GITHUB_TOKEN?: string
  /** JSON object from owner to token, for the sessions of other owners. */
  readonly GITHUB_TOKENS?: string
  /** A GitHub App that issues short-lived tokens: see `handlers/github-app.ts`. */
  readonly GITHUB_APP_ID?: string
  readonly GITHUB_APP_PRIVATE_KEY?: string
  readonly GITHUB_APP_INSTALLATIONS?: string
  /** Address of GitHub's API; default: https://api.github.com. */
  readonly GITHUB_API_URL?: string
  readonly GITHUB_SERVER_URL?: string
  readonly SLACK_SIGNING_SECRET?: string
  readonly SLACK_BOT_TOKEN?: string
  readonly SLACK_SESSION?: string
  readonly SLACK_CHANNELS?: string
  readonly SLACK_API_URL?: string
  readonly TELEGRAM_SECRET_TOKEN?: string
  readonly TELEGRAM_BOT_TOKEN?: string
  readonly TELEGRAM_SESSION?: string
  readonly TELEGRAM_CHANNELS?: string
  readonly TELEGRAM_API_URL?: string
  /** Object storage for the files of workspaces. */
  readonly S3_ENDPOINT?: string
  readonly S3_REGION?: string
  readonly S3_BUCKET?: string
  readonly S3_ACCESS_KEY_ID?: string
  readonly S3_SECRET_ACCESS_KEY?: string
  /** The built files of the page (`dist/page`). Without it the hub serves no page. */
  readonly ASSETS?: { readonly fetch: (request: Request) => Promise<Response> }
  /** Origins of sandboxes' gateways that the page may show in frames, separated by commas; may begin with `https://*.`. */
  readonly SANDBOX_ORIGINS?: string
  /** The fleet that starts sandboxes: its address, or a service binding to it, and the key that signs the calls. */
  readonly FLEET_URL?: string
  readonly FLEET?: { readonly fetch: (request: Request) => Promise<Response> }
  readonly FLEET_KEY?: string
  /** How many child sessions of one session may run at the same time (20), and how deep below the first one (3). */
  readonly MAX_CHILDREN?: string
  readonly MAX_CHILD_DEPTH?: string
  /** Origins of web pages that may call the hub, separated by commas. */
  readonly ALLOWED_ORIGINS?: string
}

/** Globals of the runtime that are not web standards. */
export interface WorkersGlobals {
  readonly WebSocketPair: new () => { readonly 0: unknown; readonly 1: DurableSocket }
  readonly WebSocketRequestResponsePair: new (request: string, response: string) => object
}

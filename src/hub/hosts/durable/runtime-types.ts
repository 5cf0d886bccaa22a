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
    }
    readonly transactionSync: <Result>(work: () => Result) => Result
    readonly setAlarm: (at: number) => Promise<void>
    readonly deleteAlarm: () => Promise<void>
  }
  readonly acceptWebSocket: (socket: DurableSocket, tags: readonly string[]) => void
  readonly getWebSockets: (tag?: string) => DurableSocket[]
  readonly setWebSocketAutoResponse: (pair: object) => void
  readonly waitUntil: (work: Promise<unknown>) => void
}

export interface DurableNamespace {
  readonly idFromName: (name: string) => unknown
  readonly get: (id: unknown) => { readonly fetch: (request: Request) => Promise<Response> }
}

export interface DurableEnvironment {
  readonly SESSIONS: DurableNamespace
  readonly SHARED_STORE: DurableNamespace
  /** Clients must send it to connect. Without it every client is refused. */
  readonly CLIENT_TOKEN?: string
  /** For pull requests and repositories. */
  readonly GITHUB_TOKEN?: string
  /** Address of GitHub's API; default: https://api.github.com. */
  readonly GITHUB_API_URL?: string
  readonly SLACK_SIGNING_SECRET?: string
  readonly SLACK_BOT_TOKEN?: string
  readonly SLACK_SESSION?: string
  readonly SLACK_API_URL?: string
  readonly TELEGRAM_SECRET_TOKEN?: string
  readonly TELEGRAM_BOT_TOKEN?: string
  readonly TELEGRAM_SESSION?: string
  readonly TELEGRAM_API_URL?: string
  /** Origins of web pages that may call the hub, separated by commas. */
  readonly ALLOWED_ORIGINS?: string
}

/** Globals of the runtime that are not web standards. */
export interface WorkersGlobals {
  readonly WebSocketPair: new () => { readonly 0: unknown; readonly 1: DurableSocket }
  readonly WebSocketRequestResponsePair: new (request: string, response: string) => object
}

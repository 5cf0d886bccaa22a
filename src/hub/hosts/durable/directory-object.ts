/** The directory of a deployment as one Durable Object: it also serves the routes that are about an owner. */
import { z } from "zod"
import { createDirectory, type Directory as Store } from "../../access/directory.ts"
import type { Owner } from "../../access/ownership.ts"
import type { JwtVerifier } from "../../access/verify-jwt.ts"
import { type HttpApiHost, handleRequest } from "../../http-api.ts"
import { doorOf, verifierOf } from "./environment.ts"
import { callObject, handleCall, nothing } from "./object-calls.ts"
import type { DurableEnvironment, DurableState } from "./runtime-types.ts"
import { storeNameOf } from "./shared-store-object.ts"
import { durableSql } from "./sql.ts"

const personaList = z.array(z.record(z.string(), z.unknown()))

export class Directory {
  readonly #environment: DurableEnvironment
  readonly #store: Store
  readonly #verifyJwt: JwtVerifier | undefined

  constructor(state: DurableState, environment: DurableEnvironment) {
    this.#environment = environment
    this.#store = createDirectory(durableSql(state), () => Date.now())
    this.#verifyJwt = verifierOf(environment)
  }

  async fetch(request: Request): Promise<Response> {
    const response =
      (await handleCall(request, { ...this.#store })) ??
      (await handleRequest(await this.#httpApi(), request))
    return response ?? new Response("", { status: 500 })
  }

  #call(session: string, name: string, ...args: readonly unknown[]): Promise<void> {
    return callObject(this.#environment.SESSIONS, session, nothing, name, args)
  }

  /** One session that cannot be reached must not keep the others from being told. */
  async #callAll(
    sessions: readonly string[],
    name: string,
    ...args: readonly unknown[]
  ): Promise<number> {
    const results = await Promise.allSettled(
      sessions.map((session) => this.#call(session, name, ...args)),
    )
    const failed = results.filter(({ status }) => status === "rejected").length
    if (failed > 0) throw new Error(`${failed} of ${sessions.length} sessions could not be reached`)
    return sessions.length
  }

  async #httpApi(): Promise<HttpApiHost> {
    const directory = this.#store
    const noSession = () => {
      throw new Error("the directory has no sessions of its own")
    }
    const callStore = <Schema extends z.ZodType>(
      owner: Owner,
      schema: Schema,
      name: string,
      ...args: readonly unknown[]
    ) => callObject(this.#environment.SHARED_STORE, storeNameOf(owner), schema, name, args)
    return {
      ...(await doorOf(this.#environment)),
      directory,
      verifyJwt: this.#verifyJwt,
      find: () => undefined,
      provision: (session, owner, fields) =>
        this.#call(session, "provision", session, owner, fields),
      liveStatus: () => undefined,
      keyRevoked: async (owner, prefix) =>
        void (await this.#callAll(await directory.sessionsOf(owner), "keyRevoked", prefix)),
      ownerChanged: async (owner, account) =>
        void (await this.#callAll(await directory.sessionsOf(owner), "ownerAccount", account)),
      rotateKeys: async () => this.#callAll(await directory.sessionsOf("all"), "encryptAgain"),
      listPersonas: (owner) => callStore(owner, personaList, "listPersonas"),
      putPersona: (owner, persona) => callStore(owner, z.boolean(), "putPersona", persona),
      removePersona: (owner, slug) => callStore(owner, z.boolean(), "removePersona", slug),
      terminate: noSession,
      artifact: noSession,
      hook: noSession,
      chat: noSession,
      upgrade: noSession,
      stream: noSession,
      checkConnections: noSession,
      gatewayKey: noSession,
    }
  }
}

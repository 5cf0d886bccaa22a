/** A worker whose Durable Object plays turns on its own SQLite and responds with what it stored. */
import type {
  DurableNamespace,
  DurableState,
} from "../../../src/hub/hosts/durable/runtime-types.ts"
import { durableSql } from "../../../src/hub/hosts/durable/sql.ts"
import { playTurn, type TurnStep } from "./turn-script.ts"

export class TurnObject {
  readonly #state: DurableState

  constructor(state: DurableState) {
    this.#state = state
  }

  async fetch(request: Request): Promise<Response> {
    const steps = (await request.json()) as readonly TurnStep[]
    return Response.json(playTurn(durableSql(this.#state), steps))
  }
}

export default {
  /** Every turn has an object of its own: it starts with empty tables. */
  fetch: (request: Request, { OBJECT }: { readonly OBJECT: DurableNamespace }) =>
    OBJECT.get(OBJECT.idFromName(crypto.randomUUID())).fetch(request),
}

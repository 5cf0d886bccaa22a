/** A worker whose Durable Object plays deliveries on its own SQLite and responds with what receivers have got. */
import type {
  DurableNamespace,
  DurableState,
} from "../../../src/hub/hosts/durable/runtime-types.ts"
import { durableSql } from "../../../src/hub/hosts/durable/sql.ts"
import { type DeliveryStep, playDeliveries } from "./delivery-script.ts"

export class DeliveryObject {
  readonly #state: DurableState

  constructor(state: DurableState) {
    this.#state = state
  }

  async fetch(request: Request): Promise<Response> {
    const steps = (await request.json()) as readonly DeliveryStep[]
    return Response.json(await playDeliveries(durableSql(this.#state), steps))
  }
}

export default {
  /** Every schedule has an object of its own: it starts with empty tables. */
  fetch: (request: Request, { OBJECT }: { readonly OBJECT: DurableNamespace }) =>
    OBJECT.get(OBJECT.idFromName(crypto.randomUUID())).fetch(request),
}

/** A store whose changes go to a bridge after they are stored. */
import type { FleetStore } from "../store/ports.ts"
import type { Bridge } from "./bridge.ts"

export const bridgedStore = (store: FleetStore, bridge: Bridge): FleetStore => ({
  ...store,
  change: async (id, at, decide) => {
    const session = await store.change(id, at, decide)
    if (session) bridge.changed(session)
    return session
  },
  forget: async (id, leftAt) => {
    await store.forget(id, leftAt)
    bridge.forgotten(id)
  },
  close: async () => {
    await bridge.stop()
    await store.close()
  },
})

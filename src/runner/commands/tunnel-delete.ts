/** `tunnel-delete`: removes the tunnel and sends the list of the remaining ones, also for an unknown name. */
import type { Command } from "./command.ts"

export const tunnelDelete: Command<"tunnel-delete"> = ({ deleteTunnel }, { name }) =>
  deleteTunnel(name)

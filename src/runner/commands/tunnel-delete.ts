/** `tunnel-delete`: the gateway takes the tunnel down and tells the list that is left; it does so for an unknown name too. */
import type { Command } from "./command.ts"

export const tunnelDelete: Command<"tunnel-delete"> = ({ deleteTunnel }, { name }) =>
  deleteTunnel(name)

/** A double of Redis: the commands of the bridge over RESP, with the ways in which a Redis can fail or lie. */
import { createServer, type Socket } from "node:net"
import type { AddressInfo } from "node:net"

/** `lie`: every command succeeds, nothing is stored. `error`: every command is refused. `hang`: no answer at all. */
export type RedisMode = "work" | "lie" | "error" | "hang"

export interface RedisDouble {
  readonly url: string
  readonly port: number
  readonly values: Map<string, { readonly text: string; readonly seconds: number }>
  /** Every command in order, with its arguments. */
  readonly commands: readonly (readonly string[])[]
  readonly setMode: (mode: RedisMode) => void
  /** Cuts every connection. */
  readonly cut: () => void
  readonly stop: () => Promise<void>
}

/** The complete commands at the start of the bytes: arrays of bulk strings. */
const readCommands = (bytes: Buffer): { readonly commands: string[][]; readonly rest: Buffer } => {
  const commands: string[][] = []
  let at = 0
  const line = (from: number) => {
    const end = bytes.indexOf("\r\n", from)
    return end === -1 ? undefined : { text: bytes.toString("utf8", from, end), next: end + 2 }
  }
  for (;;) {
    const head = line(at)
    if (!head) return { commands, rest: bytes.subarray(at) }
    let next = head.next
    const words: string[] = []
    for (let index = 0; index < Number(head.text.slice(1)); index++) {
      const length = line(next)
      const size = Number(length?.text.slice(1))
      if (!length || length.next + size + 2 > bytes.length)
        return { commands, rest: bytes.subarray(at) }
      words.push(bytes.toString("utf8", length.next, length.next + size))
      next = length.next + size + 2
    }
    commands.push(words)
    at = next
  }
}

export const startRedisDouble = async (port = 0): Promise<RedisDouble> => {
  const values: RedisDouble["values"] = new Map()
  const commands: string[][] = []
  const sockets = new Set<Socket>()
  let mode: RedisMode = "work"

  const reply = (words: readonly string[]): string => {
    const [name = "", key = "", text = "", , seconds = "0"] = words
    if (name.toUpperCase() === "HELLO")
      return "%2\r\n$6\r\nserver\r\n$5\r\nredis\r\n$5\r\nproto\r\n:3\r\n"
    if (mode === "error") return "-OOM command not allowed when used memory > 'maxmemory'.\r\n"
    switch (name.toUpperCase()) {
      case "SET":
        if (mode === "work") values.set(key, { text, seconds: Number(seconds) })
        return "+OK\r\n"
      case "DEL":
        return `:${mode === "work" && values.delete(key) ? 1 : 0}\r\n`
      case "PUBLISH":
        return mode === "work" ? ":0\r\n" : "$4\r\nwhat\r\n"
      default:
        return "-ERR unknown command\r\n"
    }
  }

  const server = createServer((socket) => {
    sockets.add(socket)
    let pending = Buffer.alloc(0)
    socket.on("close", () => sockets.delete(socket))
    socket.on("error", () => {})
    socket.on("data", (chunk) => {
      const { commands: found, rest } = readCommands(Buffer.concat([pending, Buffer.from(chunk)]))
      pending = Buffer.from(rest)
      for (const words of found) {
        commands.push(words)
        if (mode !== "hang") socket.write(reply(words))
      }
    })
  })
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve))
  const { port: open } = server.address() as AddressInfo
  const cut = () => {
    for (const socket of sockets) socket.destroy()
  }
  return {
    url: `redis://127.0.0.1:${open}`,
    port: open,
    values,
    commands,
    setMode: (next) => {
      mode = next
    },
    cut,
    stop: async () => {
      cut()
      await new Promise<void>((resolve) => server.close(() => resolve()))
    },
  }
}

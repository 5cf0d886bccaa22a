/** `sandpiper sandbox-server`: the process that serves files and programs of the workspace; the runner starts it. */
import { systemClock } from "../lib/clock.ts"
import { serverOrder, startV1Server } from "../runner/sandbox/v1/server.ts"
import { type Command, print } from "./command.ts"

/** The first line of the input is the order. The end of the input means that the runner has ended. */
export const sandboxServer: Command = async ({ log }) => {
  const input = Bun.stdin.stream().getReader()
  const decoder = new TextDecoder()
  let text = ""
  let isOver = false
  while (!text.includes("\n")) {
    const { done, value } = await input.read()
    if (done) return 1
    text += decoder.decode(value, { stream: true })
  }
  const server = await startV1Server(serverOrder.parse(JSON.parse(text)), {
    clock: systemClock,
    log,
    onProcesses: (processes) => {
      // The output ends with the input, and a write to it would end this process before it has ended its programs.
      if (!isOver) print(`${JSON.stringify({ processes })}\n`)
    },
  })
  print(`${JSON.stringify({ port: server.port })}\n`)
  for (;;) if ((await input.read()).done) break
  isOver = true
  await server.stop()
  return 0
}

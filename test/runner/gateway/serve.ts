/** A gateway in a separate process, to measure its memory: prints its port and a cookie, then serves. */
import { logIn, startTestGateway } from "./kit.ts"

const [port = 0, opencodePort = port] = process.argv.slice(2).map(Number)
const gateway = startTestGateway({
  backends: { vscode: port, vnc: port, ttyd: port },
  opencodePort: () => opencodePort,
})
const cookie = await logIn(gateway)
process.stdout.write(`${JSON.stringify({ port: gateway.port, cookie })}\n`)

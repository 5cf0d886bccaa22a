/** A gateway in a separate process, to measure its memory: prints its port and a cookie, then serves. */
import { logIn, startTestGateway } from "./kit.ts"

const port = Number(process.argv[2])
const gateway = startTestGateway({ backends: { vscode: port, vnc: port, ttyd: port } })
const cookie = await logIn(gateway)
process.stdout.write(`${JSON.stringify({ port: gateway.port, cookie })}\n`)

/** A gateway in a process of its own, so that its memory can be measured: prints where it is and a cookie, then serves. */
import { logIn, startTestGateway } from "./kit.ts"

const port = Number(process.argv[2])
const gateway = startTestGateway({ backends: { vscode: port, vnc: port, ttyd: port } })
const cookie = await logIn(gateway)
process.stdout.write(`${JSON.stringify({ port: gateway.port, cookie })}\n`)

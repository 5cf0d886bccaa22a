/** A gateway to be attacked. Argument: the port of the backend behind `/vscode/` and the others. */
import { logIn, startTestGateway } from "../../runner/gateway/kit.ts"
import { startMonitor } from "../kit/monitor.ts"

const port = Number(process.argv[2])
const gateway = startTestGateway({ backends: { vscode: port, vnc: port, ttyd: port } })
const cookie = await logIn(gateway)
// The log of a test gateway is kept in memory; under attack it would grow without bound.
setInterval(() => gateway.log.splice(0), 100)
process.stdout.write(`${JSON.stringify({ port: gateway.port, cookie, monitor: startMonitor() })}\n`)

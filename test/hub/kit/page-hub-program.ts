/** A hub with its page as a program, for tests that kill it: `page-hub-program.ts STATE_DIR PORT`. Prints a login link. */
import { servePage } from "../../../src/cli/serve-page.ts"
import { loadPageFiles } from "../../../src/hub/page-files.ts"
import { CLIENT_TOKEN, startTestHub } from "./hub.ts"

const [stateDir = "", port = ""] = process.argv.slice(2)
const settings = { stateDir, pageOrigin: "http://sandpiper.localhost", sandboxOrigin: undefined }
const page = servePage(settings, await loadPageFiles(), CLIENT_TOKEN)
await startTestHub({ stateDir, port: Number(port), page })
process.stdout.write(`${page?.newLink(Number(port)) ?? "the page is not built"}\n`)

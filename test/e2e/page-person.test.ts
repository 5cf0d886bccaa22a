/** A person's ways through the page: the compiled binary, the real OpenCode, a scripted model, Chromium. */
import { furnishSpeech } from "./page/attached-files.ts"
import { startGround } from "./page/start-ground.ts"
import { testStopAndQueue } from "./page/stop-and-queue.ts"

const ground = startGround({ furnish: furnishSpeech })

testStopAndQueue(ground)

/** Every tool by name: generated from the operations table, or hand-written. */
import { operations, toolsOf } from "../src/wire/operations/index.ts"
import { browserScreenshot } from "./browser-screenshot.ts"
import { channelReply } from "./channel-reply.ts"
import { debugExecution } from "./debug-execution.ts"
import { fromOperation } from "./from-operation.ts"
import { memoryPrune } from "./memory-prune.ts"
import { notifyParent } from "./notify-parent.ts"
import { parallelDataEnrichment } from "./parallel-data-enrichment.ts"
import { parallelDeepResearch } from "./parallel-deep-research.ts"
import { parallelWebExtract } from "./parallel-web-extract.ts"
import { parallelWebSearch } from "./parallel-web-search.ts"
import { sendImage } from "./send-image.ts"
import { sleep } from "./sleep.ts"
import { syncTrigger } from "./sync-trigger.ts"
import type { Tool } from "./tool.ts"
import { transcribeAudio } from "./transcribe-audio.ts"
import { waitForEvent } from "./wait-for-event.ts"
import { writeTunnelEnv } from "./write-tunnel-env.ts"

export const handWritten: Readonly<Record<string, Tool>> = {
  browser_screenshot: browserScreenshot,
  channel_reply: channelReply,
  debug_execution: debugExecution,
  memory_prune: memoryPrune,
  notify_parent: notifyParent,
  parallel_data_enrichment: parallelDataEnrichment,
  parallel_deep_research: parallelDeepResearch,
  parallel_web_extract: parallelWebExtract,
  parallel_web_search: parallelWebSearch,
  send_image: sendImage,
  sleep,
  sync_trigger: syncTrigger,
  transcribe_audio: transcribeAudio,
  wait_for_event: waitForEvent,
  write_tunnel_env: writeTunnelEnv,
}

export const toolsFrom = (
  table: typeof operations,
  handWrittenTools: Readonly<Record<string, Tool>>,
): Readonly<Record<string, Tool>> => {
  const generated = table.flatMap((operation) =>
    toolsOf(operation).map((row) => [row.name, fromOperation(operation, row)] as const),
  )
  const duplicate = generated.find(([name]) => Object.hasOwn(handWrittenTools, name))
  if (duplicate) {
    throw new Error(`the tool ${duplicate[0]} is both generated from an operation and hand-written`)
  }
  return { ...Object.fromEntries(generated), ...handWrittenTools }
}

export const tools = toolsFrom(operations, handWritten)

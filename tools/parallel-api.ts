/** Client of Parallel's REST API through the key broker, for the four `parallel_*` tools. */
import { z } from "zod"
import type { ToolContext } from "./tool.ts"
import { waitFor } from "./wait.ts"

const POLL_MS = 2000

/**
 * The runner's key broker adds the key. Without one the tools are not offered to the model; a call that still arrives gets
 * the reason.
 */
const readEnvironment = () => {
  const { SANDPIPER_BROKER_TOKEN: token, SANDPIPER_BROKER_URL: base } = process.env
  if (!token || !base)
    throw new Error("Web research is disabled: PARALLEL_API_KEY is not set. Tell the user.")
  return { token, base }
}

export const callParallel = async (
  method: "GET" | "POST",
  path: string,
  body: Readonly<Record<string, unknown>> | undefined,
  { abort: signal }: ToolContext,
): Promise<unknown> => {
  const { token, base } = readEnvironment()
  const response = await fetch(new URL(path, base), {
    method,
    headers: {
      authorization: `Bearer ${token}`,
      "x-sandpiper-service": "parallel",
      "content-type": "application/json",
    },
    signal,
    ...(body && { body: JSON.stringify(body) }),
  }).catch((error: unknown) => {
    signal.throwIfAborted()
    throw new Error("Parallel's API cannot be reached. Try again in a minute.", { cause: error })
  })
  if (response.ok) return response.json()
  const detail = (await response.text().catch(() => "")).slice(0, 300)
  throw new Error(
    `Parallel's API responded with status ${response.status}${detail === "" ? "" : `: ${detail}`}.`,
  )
}

const run = z.looseObject({ run_id: z.string(), status: z.string(), error: z.unknown().optional() })

const result = z.looseObject({ output: z.looseObject({ content: z.unknown() }) })

/** Starts a task and polls until its result is there, which takes minutes. */
export const runTask = async (
  task: Readonly<Record<string, unknown>>,
  context: ToolContext,
): Promise<z.output<typeof result>["output"]> => {
  const started = run.parse(await callParallel("POST", "/v1/tasks/runs", task, context))
  const path = `/v1/tasks/runs/${encodeURIComponent(started.run_id)}`
  const startedAt = performance.now()
  for (let { status, error } = started; status !== "completed";) {
    if (["failed", "cancelled", "cancelling"].includes(status)) {
      throw new Error(`The research ${status}${error ? `: ${JSON.stringify(error)}` : ""}.`)
    }
    const seconds = Math.round((performance.now() - startedAt) / 1000)
    context.metadata({
      title: `Research ${status}, ${seconds} s`,
      metadata: { run: started.run_id },
    })
    await waitFor(POLL_MS, context.abort)
    ;({ status, error } = run.parse(await callParallel("GET", path, undefined, context)))
  }
  return result.parse(await callParallel("GET", `${path}/result`, undefined, context)).output
}

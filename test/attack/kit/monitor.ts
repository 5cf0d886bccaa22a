/** Runs inside an attacked process: reports its longest event-loop stall and its memory over a port of its own. */
import { readFileSync } from "node:fs"

export interface Health {
  readonly maxStallMs: number
  readonly rssMb: number
  readonly peakMb: number
}

const EVERY_MS = 5

/**
 * CPU time of this thread outside the kernel, in ticks of 10 ms. The threads of the collector and the compiler do not hold up
 * the event loop, and the kernel's time to hand out memory is not the parser's.
 */
const computedMs = (): number => {
  const [, fields = ""] = readFileSync("/proc/thread-self/stat", "utf8").split(") ")
  return Number(fields.split(" ")[11]) * 10
}

export const startMonitor = (): number => {
  let maxStallMs = 0
  let last = performance.now()
  let computed = computedMs()
  setInterval(() => {
    const now = performance.now()
    // A process that waits for a busy machine is not stalled: only time that the thread of the event loop computed counts.
    const stalled = Math.min(now - last - EVERY_MS, computedMs() - computed)
    maxStallMs = Math.max(maxStallMs, stalled)
    last = now
    computed = computedMs()
  }, EVERY_MS)
  const memory = (field: string): number => {
    const status = readFileSync("/proc/self/status", "utf8")
    return Math.round(Number(new RegExp(`${field}:\\s+(\\d+)`).exec(status)?.[1]) / 1024)
  }
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: (request) => {
      if (request.method === "DELETE") maxStallMs = 0
      const health: Health = { maxStallMs, rssMb: memory("VmRSS"), peakMb: memory("VmHWM") }
      return Response.json(health)
    },
  })
  return server.port ?? 0
}

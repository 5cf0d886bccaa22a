/** Runs inside an attacked process: reports its longest event-loop stall and its memory over a port of its own. */
import { readFileSync } from "node:fs"

export interface Health {
  readonly maxStallMs: number
  readonly rssMb: number
  readonly peakMb: number
}

const EVERY_MS = 5

export const startMonitor = (): number => {
  let maxStallMs = 0
  let last = performance.now()
  let spent = process.cpuUsage()
  setInterval(() => {
    const now = performance.now()
    const { user, system } = process.cpuUsage(spent)
    // A process that waits for a busy machine is not stalled: only time that it computed counts.
    const stalled = Math.min(now - last - EVERY_MS, (user + system) / 1000)
    maxStallMs = Math.max(maxStallMs, stalled)
    last = now
    spent = process.cpuUsage()
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

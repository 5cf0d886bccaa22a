/** Cron schedules on workerd, the runtime of Durable Objects. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { join } from "node:path"
import { bundleForWorkerd, launchWorker, readDeployment, type TestWorker } from "../kit/workerd.ts"

const WORKER = `
  import { nextTime, parseCron } from "./cron.js"
  export default {
    fetch: (request) => {
      const { cron, zone, after } = Object.fromEntries(new URL(request.url).searchParams)
      const at = nextTime(parseCron(cron, zone), Date.parse(after))
      return Response.json(at === undefined ? "never" : new Date(at).toISOString())
    },
  }
`

const CRON = join(import.meta.dir, "../../../src/hub/shared-store/cron.ts")
let workerd: TestWorker

beforeAll(async () => {
  const { compatibility_date, compatibility_flags } = await readDeployment()
  workerd = await launchWorker({
    modules: [
      { type: "ESModule", path: "worker.js", contents: WORKER },
      { type: "ESModule", path: "cron.js", contents: await bundleForWorkerd(CRON) },
    ],
    host: "127.0.0.1",
    cf: false,
    compatibilityDate: compatibility_date,
    compatibilityFlags: compatibility_flags,
  })
})
afterAll(() => workerd.stop())

describe("cron schedule on workerd", () => {
  test.each([
    ["0 9 * * mon-fri", "UTC", "2026-11-13T09:00:00Z", "2026-11-16T09:00:00.000Z"],
    ["0 0 13 * fri", "UTC", "2026-11-16T00:00:00Z", "2026-11-20T00:00:00.000Z"],
    ["30 2 * * *", "Europe/Berlin", "2026-03-28T23:00:00Z", "2026-03-30T00:30:00.000Z"],
    ["30 2 * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00.000Z"],
    ["0 0 31 2 *", "America/New_York", "2026-01-01T00:00:00Z", "never"],
  ])("on workerd the schedule %s in %s after %s is next due: %s", async (cron, zone, after, at) => {
    const query = new URLSearchParams({ cron, zone, after })
    const response = await workerd.worker.dispatchFetch(`http://worker/?${query.toString()}`)
    expect(await response.json()).toBe(at)
  })
})

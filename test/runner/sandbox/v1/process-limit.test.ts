/** The limit of background processes holds for requests that come at the same time. */
import { expect, test } from "bun:test"
import { startV1Stage } from "./kit.ts"

test("of a hundred processes that are started at once 64 run, and the others are refused", async () => {
  const stage = await startV1Stage()
  try {
    const start = async () => {
      const response = await stage.call("POST", "/v1/processes", {
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ command: "sleep", args: ["1000"], cwd: "." }),
      })
      await response.arrayBuffer()
      return response.status
    }
    const statuses = await Promise.all(Array.from({ length: 100 }, start))
    expect(statuses.filter((status) => status === 409)).toHaveLength(36)
    const listed = await stage.call("GET", "/v1/processes")
    const { processes } = (await listed.json()) as { readonly processes: readonly unknown[] }
    expect(processes).toHaveLength(64)
  } finally {
    await stage.stop()
  }
})

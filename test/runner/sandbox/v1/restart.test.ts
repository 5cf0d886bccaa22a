/** Background processes and a runner that restarts: they end, and the next runner lists them as exited. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { existsSync } from "node:fs"
import { untilTrue } from "../../../kit/until-true.ts"
import { startV1Stage, type V1Stage } from "./kit.ts"

let stage: V1Stage
beforeAll(async () => {
  stage = await startV1Stage()
})
afterAll(() => stage.stop())

interface Process {
  readonly id: string
  readonly pid?: number
  readonly status: string
  readonly exitCode?: number | null
  readonly args: readonly string[]
}
const json = async <Body>(method: string, path: string, body?: object): Promise<Body> => {
  const init = body === undefined ? {} : { body: JSON.stringify(body) }
  const response = await stage.call(method, path, init)
  expect(response.status).toBe(200)
  return (await response.json()) as Body
}
const start = (...args: readonly string[]) =>
  json<Process>("POST", "/v1/processes", { command: "sleep", args })
const list = async () =>
  (await json<{ processes: Process[] }>("GET", "/v1/processes")).processes.map(
    ({ id, status, exitCode }) => [id, status, exitCode],
  )

describe("a background process", () => {
  test("a background process ends with its runner, and the next one lists it as exited and says why in its log", async () => {
    const one = await start("1000")
    const other = await start("1001")
    await json("POST", `/v1/processes/${other.id}/kill`)
    const isStored = (id: string) => stage.storedProcesses().includes(`"${id}"`)
    await untilTrue(() => isStored(one.id) && !isStored(other.id), "the stored processes")
    await stage.restartRunner()
    expect(existsSync(`/proc/${one.pid}`)).toBe(false)
    expect(await list()).toEqual([[one.id, "exited", null]])
    const { entries } = await json<{ entries: { data: string }[] }>(
      "GET",
      `/v1/processes/${one.id}/logs`,
    )
    expect(atob(entries[0]?.data ?? "")).toContain("ended with the server of the sandbox")
    const next = await start("1002")
    expect([one.id, other.id]).not.toContain(next.id)
    expect((await stage.call("DELETE", `/v1/processes/${one.id}`)).status).toBe(204)
    expect(await list()).toEqual([[next.id, "running", undefined]])
  })

  test("a background process of a server that was killed is listed as exited, too", async () => {
    const { id, pid } = await start("1003")
    await untilTrue(() => stage.storedProcesses().includes(`"${id}"`), "the stored process")
    process.kill(stage.supervisor.pid() ?? 0, "SIGKILL")
    await untilTrue(() => stage.supervisor.pid() === undefined, "the end of the server")
    const known = await list()
    expect(known).toContainEqual([id, "exited", null])
    await untilTrue(() => !existsSync(`/proc/${pid}`), "the end of the process")
  })
})

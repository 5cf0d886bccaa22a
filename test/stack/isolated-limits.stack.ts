/** Limits of isolated local sandboxes: what one of them uses up, the other one still has. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { type IsolatedPlace, openIsolated } from "./isolated-kit.ts"
import { until } from "./kit.ts"

let place: IsolatedPlace
let greedy = ""
let other = ""

beforeAll(async () => {
  place = await openIsolated()
  greedy = await place.start("greedy", { resources: { memoryMiB: 128, pids: 40, cpu: 0.5 } })
  other = await place.start("other", { resources: { memoryMiB: 128, pids: 40 } })
})
afterAll(() => place.end())

const answers = async () =>
  expect(await place.shell(other, "echo here")).toEqual({ code: 0, text: "here\n" })

test("a sandbox that starts processes without end stops at its own number, and the other one answers", async () => {
  // It ends by itself after 300 attempts, in case that the limit does not work.
  const script = `
import os, time
started = 0
for _ in range(300):
    try:
        if os.fork() == 0:
            time.sleep(600); os._exit(0)
        started += 1
    except OSError:
        break
with open("/workspace/count", "w") as file:
    file.write(str(started))
`
  await place.shell(greedy, `setsid -f python3 -c '${script}' >/dev/null 2>&1 </dev/null`)
  const file = join(place.root, "fleet/boxes", greedy, "disk/upper/workspace/count")
  const count = () => (existsSync(file) ? readFileSync(file, "utf8") : "")
  await until(() => count() !== "", "the number of processes")
  expect(Number(count())).toBeGreaterThan(10)
  expect(Number(count())).toBeLessThan(40)
  await answers()
  expect(await place.provider.terminate(greedy)).toMatchObject({ is: "ok" })
})

test("a sandbox that takes more memory than its limit is ended there, and the other one answers", async () => {
  const hog = await place.start("hog", { resources: { memoryMiB: 128 } })
  const taken = await place.shell(
    hog,
    "python3 -c 'b = bytearray(400 * 1024 * 1024); print(len(b))'",
  )
  expect(taken.code).not.toBe(0)
  expect(taken.text).not.toContain("419430400")
  const small = await place.shell(
    hog,
    "python3 -c 'b = bytearray(16 * 1024 * 1024); print(len(b))'",
  )
  expect(small).toEqual({ code: 0, text: "16777216\n" })
  await answers()
})

/**
 * The page against its budgets: bytes of the build, first paint and reload with a quarter of the processor, the cost of a
 * frame while an answer streams, typing, and what an idle page does. The compiled binary, a scripted model, Chromium.
 */
import { loadPageFiles } from "../src/hub/page-files.ts"
import { makeRepository } from "../test/kit/conversation.ts"
import { startScriptedModel, text } from "../test/kit/model.ts"
import { type OpenedPage, sendPrompt, startPage, turnIsOver } from "../test/kit/page.ts"
import { ms, percentile, say, spread } from "./measure.ts"

const RUNS = 5
const SLOWER = 4
const CHARACTERS = 100_000

const files = await loadPageFiles()
const all = [...files.values()].reduce((sum, { gz }) => sum + gz.length, 0)
const document = Bun.gunzipSync(Uint8Array.from(files.get("index.html")?.gz ?? []))
const named = new TextDecoder().decode(document).matchAll(/(?:href|src)="\/(assets\/[^"]+)"/g)
const first = ["index.html", ...new Set([...named].map(([, name]) => name ?? ""))].reduce(
  (sum, name) => sum + (files.get(name)?.gz.length ?? 0),
  0,
)
say("before the first use, gzip (budget 85 kB)", `${(first / 1000).toFixed(1)} kB`)
say("all of it, gzip (budget 300 kB)", `${(all / 1000).toFixed(1)} kB`)

const model = await startScriptedModel()
const stage = await startPage({}, { model, furnish: makeRepository })
const { page } = await stage.open()
const debug = await page.context().newCDPSession(page)

const slowDown = (rate: number) => debug.send("Emulation.setCPUThrottlingRate", { rate })

const firstPaint = async (on: OpenedPage["page"]): Promise<number> => {
  await on.reload()
  await on.locator("#prompt").waitFor()
  return on.evaluate<number>(
    `performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? NaN`,
  )
}
const repeated = async (act: () => Promise<number>): Promise<readonly number[]> => {
  const taken: number[] = []
  for (let run = 0; run < RUNS; run++) taken.push(await act())
  return taken
}

// A conversation to come back to, away from its end.
const paragraph = "Words that fill a line of the conversation, with `code` and **weight**. "
model.on("before", [text(`${paragraph.repeat(8)}\n\n`.repeat(40))])
await page.goto(`${stage.origin}/c/local/web:before`)
await sendPrompt(page, "@@before@@")
await turnIsOver(page, "@@before@@")
say("first contentful paint", ms(spread(await repeated(() => firstPaint(page)))))
await slowDown(SLOWER)
const slow = await repeated(() => firstPaint(page))
say("first contentful paint, CPU / 4 (budget 1000 ms)", ms(spread(slow)))
await page.evaluate(`document.querySelector("#log").scrollTop -= 1500`)
await page.locator(".newest").waitFor()
const place = `(() => {
  const log = document.querySelector("#log")?.getBoundingClientRect().top ?? 0
  const turn = document.querySelector("[data-turn]")
  return turn ? Math.round(turn.getBoundingClientRect().top - log) : undefined
})()`
const wanted = await page.evaluate<number>(place)
const back = await repeated(async () => {
  await page.reload()
  return page.evaluate<number>(`new Promise((resolve) => {
    const look = () =>
      Math.abs((${place} ?? 1e9) - ${wanted}) <= 2
        ? resolve(performance.now())
        : requestAnimationFrame(look)
    look()
  })`)
})
say("reload to the same picture, CPU / 4 (budget 1000 ms)", ms(spread(back)))

// 200 deltas a second, into an answer of 100,000 characters.
const delta = 20
model.on("stream", [
  text(
    `${paragraph.repeat(4)}\n\n`
      .repeat(Math.ceil(CHARACTERS / (4 * paragraph.length)))
      .slice(0, CHARACTERS),
    { chunks: CHARACTERS / delta, delayMs: 5 },
  ),
])
for (const rate of [1, SLOWER]) {
  await slowDown(rate)
  if (rate === SLOWER)
    model.on("stream", [text(paragraph.repeat(400), { chunks: 1500, delayMs: 5 })])
  await page.goto(`${stage.origin}/c/local/web:stream-${rate}`)
  await page.locator("#prompt").waitFor()
  // Time of the processor: what other programs of the machine do is not in it.
  await debug.send("Performance.enable", { timeDomain: "threadTicks" })
  const metric = async (name: string) => {
    const { metrics } = await debug.send("Performance.getMetrics")
    return metrics.find((one) => one.name === name)?.value ?? 0
  }
  await page.evaluate(`(() => {
    window.frames_ = []
    const frame = () => {
      const from = performance.now()
      // What is scheduled after this callback and before the next frame is the page's own work.
      const { port1, port2 } = new MessageChannel()
      port1.onmessage = () => window.frames_.push(performance.now() - from)
      port2.postMessage(0)
      requestAnimationFrame(frame)
    }
    requestAnimationFrame(frame)
  })()`)
  const [script, from] = [await metric("ScriptDuration"), performance.now()]
  await sendPrompt(page, "@@stream@@")
  await page.locator(".prose").first().waitFor()
  await page.locator(".turn-foot").waitFor({ timeout: 300_000 })
  const spent = ((await metric("ScriptDuration")) - script) * 1000
  const frames = await page.evaluate<readonly number[]>("window.frames_")
  say(
    `while streaming, CPU / ${rate}: a frame with layout and paint, p50 / p95`,
    `${percentile(frames, 0.5).toFixed(1)} / ${percentile(frames, 0.95).toFixed(1)} ms`,
  )
  say(
    `while streaming, CPU / ${rate}: script for each frame, mean (budget p95 8 ms)`,
    `${(spent / frames.length).toFixed(1)} ms, ${Math.round((performance.now() - from) / 1000)} s`,
  )
}

// Typing in a conversation with a long answer: from the key to the frame that shows it.
const typed = async (): Promise<readonly number[]> => {
  await page.goto(`${stage.origin}/c/local/web:before`)
  await page.locator(".turn-foot").waitFor()
  await page.evaluate(`(() => {
    window.keys_ = []
    document.querySelector("#prompt").addEventListener("keydown", (event) => {
      requestAnimationFrame(() => {
        const { port1, port2 } = new MessageChannel()
        port1.onmessage = () => window.keys_.push(performance.now() - event.timeStamp)
        port2.postMessage(0)
      })
    })
  })()`)
  await page.locator("#prompt").pressSequentially("Words as a person types them. ".repeat(4), {
    delay: 30,
  })
  return page.evaluate<readonly number[]>("window.keys_")
}
for (const rate of [1, SLOWER]) {
  await slowDown(rate)
  const keys = await typed()
  say(
    `typing, CPU / ${rate}: from the key to its frame, p50 / p95`,
    `${percentile(keys, 0.5).toFixed(1)} / ${percentile(keys, 0.95).toFixed(1)} ms`,
  )
}

// An idle page: what it asks for and how often it wakes up.
await slowDown(1)
await page.goto(`${stage.origin}/c/local/web:before`)
await page.locator(".turn-foot").waitFor()
const requests: string[] = []
page.on("request", (request) => requests.push(request.url()))
const before = await debug.send("Performance.getMetrics")
await Bun.sleep(10_000)
const after = await debug.send("Performance.getMetrics")
const tasks = (which: typeof before) =>
  which.metrics.find(({ name }) => name === "ScriptDuration")?.value ?? 0
say("idle for 10 s: script time", `${((tasks(after) - tasks(before)) * 1000).toFixed(1)} ms`)
say("idle for 10 s: requests", String(requests.length))

await stage.stop()
await model.stop()

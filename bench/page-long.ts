/** A conversation of 10,000 messages: from the navigation to the newest message, nodes, heap, and frames while scrolling. */
import { launchBrowser } from "../test/kit/browser.ts"
import { startLongConversation } from "../test/kit/long-conversation.ts"
import { openPage } from "../test/kit/page.ts"
import { ms, percentile, say, spread } from "./measure.ts"

const MESSAGES = 10_000
const RUNS = 5
const SLOWER = 4

const long = await startLongConversation(MESSAGES)
const browser = await launchBrowser()
const { page } = await openPage(browser, long.newLink())
const debug = await page.context().newCDPSession(page)
// Time of the processor: what other programs of the machine do is not in it.
await debug.send("Performance.enable", { timeDomain: "threadTicks" })
const work = async () => {
  const { metrics: all } = await debug.send("Performance.getMetrics")
  return (all.find(({ name }) => name === "TaskDuration")?.value ?? Number.NaN) * 1000
}
const address = page.url()
const newest = page.getByText(`answer ${MESSAGES - 1}`, { exact: true })
await newest.waitFor()

for (const rate of [1, SLOWER]) {
  await debug.send("Emulation.setCPUThrottlingRate", { rate })
  const opened: number[] = []
  const worked: number[] = []
  for (let run = 0; run < RUNS; run++) {
    await page.goto("about:blank")
    const before = await work()
    await page.goto(address)
    await newest.waitFor()
    worked.push((await work()) - before)
    opened.push(await page.evaluate<number>("performance.now()"))
  }
  const budget = rate === 1 ? " (budget 500 ms)" : ""
  say(`10,000 messages, CPU / ${rate}: to the newest one${budget}`, ms(spread(opened)))
  say(`the same: work of the page's thread`, ms(spread(worked)))
}
await debug.send("Emulation.setCPUThrottlingRate", { rate: 1 })
const nodes = await page.evaluate<number>("document.querySelectorAll('*').length")
say("nodes of the document (budget 5,000)", String(nodes))
await debug.send("HeapProfiler.collectGarbage")
const { metrics } = await debug.send("Performance.getMetrics")
const heap = metrics.find(({ name }) => name === "JSHeapUsedSize")?.value ?? Number.NaN
say("heap (budget 40 MB)", `${(heap / 1_000_000).toFixed(1)} MB`)

const beforeScroll = await work()
const frames = await page.evaluate<readonly number[]>(`new Promise((resolve) => {
  const log = document.querySelector("#log")
  const taken = []
  let before = performance.now()
  const frame = () => {
    const now = performance.now()
    taken.push(now - before)
    before = now
    if (taken.length > 300) return resolve(taken)
    log.scrollTop -= 300 + (taken.length % 7) * 250
    requestAnimationFrame(frame)
  }
  requestAnimationFrame(frame)
})`)
say(
  "scrolling 300 to 1,800 px a frame: p50 / p95 (budget p95 60 ms)",
  `${percentile(frames, 0.5).toFixed(1)} / ${percentile(frames, 0.95).toFixed(1)} ms`,
)
const workOfFrame = ((await work()) - beforeScroll) / frames.length
say("the same: work of the page's thread for each frame", `${workOfFrame.toFixed(1)} ms`)
await browser.close()
await long.stop()

/** Work that may wait: it runs when the page has nothing to draw, and at the latest after a moment. */

const LATEST_MS = 400

/** The returned function cancels it. */
export const whenIdle = (act: () => void): (() => void) => {
  // Safari has no idle callbacks.
  if (typeof requestIdleCallback !== "function") {
    const timer = setTimeout(act, 50)
    return () => clearTimeout(timer)
  }
  const wanted = requestIdleCallback(act, { timeout: LATEST_MS })
  return () => cancelIdleCallback(wanted)
}

/** Waits for a condition, and says what it waited for when it does not come. */
export const until = async (condition: () => boolean, what: string, ms = 20_000): Promise<void> => {
  const deadline = Date.now() + ms
  while (!condition()) {
    if (Date.now() > deadline) throw new Error(`no ${what} within ${ms} ms`)
    await Bun.sleep(2)
  }
}

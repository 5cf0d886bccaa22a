/** Polls a condition; a timeout throws an error that names `what` was expected. */
export const until = async (condition: () => boolean, what: string, ms = 20_000): Promise<void> => {
  const deadline = Date.now() + ms
  while (!condition()) {
    if (Date.now() > deadline) throw new Error(`no ${what} within ${ms} ms`)
    await Bun.sleep(2)
  }
}

/** Waits for a condition that may need a request. */
export const untilTrue = async (
  holds: () => Promise<boolean> | boolean,
  what: string,
  ms = 30_000,
): Promise<void> => {
  const deadline = Date.now() + ms
  while (!(await holds())) {
    if (Date.now() > deadline) throw new Error(`no ${what} within ${ms} ms`)
    await Bun.sleep(25)
  }
}

/** Runs asynchronous work one after another, in the order of the calls. A failure does not stop what follows. */
export const createInOrder = (): (<Result>(work: () => Promise<Result>) => Promise<Result>) => {
  let last: Promise<unknown> = Promise.resolve()
  return (work) => {
    const result = last.then(work, work)
    last = result.catch(() => {})
    return result
  }
}

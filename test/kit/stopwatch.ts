/** How long the code of this process worked since the start; time that other processes take from it does not count. */
export const startStopwatch = (): (() => number) => {
  const started = performance.now()
  const before = process.cpuUsage()
  return () => {
    const { user, system } = process.cpuUsage(before)
    // The threads of the garbage collector count as CPU time too, so the wall clock may be less.
    return Math.min(performance.now() - started, (user + system) / 1000)
  }
}

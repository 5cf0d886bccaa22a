/** The text of the error that the work rejects with; "no failure" if it does not. */
export const failureOf = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => "no failure",
    (error: unknown) => String(error),
  )

/** Runs a program to its end and collects its output. */

export interface Ended {
  readonly out: string
  readonly err: string
  readonly code: number
  readonly pid: number
}

export const runToEnd = async (
  command: readonly string[],
  {
    input,
    ...options
  }: { readonly env: Record<string, string>; readonly cwd?: string; readonly input?: string },
): Promise<Ended> => {
  const child = Bun.spawn([...command], {
    ...options,
    stdin: input === undefined ? "ignore" : new Blob([input]),
    stdout: "pipe",
    stderr: "pipe",
  })
  const [out, err, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ])
  return { out, err, code, pid: child.pid }
}

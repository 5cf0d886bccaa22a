/**
 * How the runner starts in a sandbox of a cloud whose main process is not the runner. The runner runs in a process session
 * of its own, so that the call that started it can end.
 */
import type { SandboxCommand } from "./contract.ts"

/** The entry point of the image. */
const START = "/start.sh"

/**
 * Ends the runner whose pid the entry point wrote, for example one in a restored memory, and starts another. The pid counts
 * only if that process is a runner.
 */
export const startScript = (paths: {
  readonly start: string
  readonly pidFile: string
  readonly log: string
}): string => `
pid=$(cat '${paths.pidFile}' 2>/dev/null)
if [ -n "$pid" ] && [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = sandpiper ]; then
  kill -9 "$pid"
fi
setsid '${paths.start}' </dev/null >>'${paths.log}' 2>&1 &
`

const script = startScript({
  start: START,
  pidFile: "/run/sandpiper-runner.pid",
  log: "/var/log/sandpiper.log",
})

/** Ends as soon as the runner has been started. */
export const startRunner: readonly string[] = ["/bin/sh", "-c", script]

/** The main process of a sandbox that would end with its main process: a restart of the runner must not end it. */
export const startAndStay: readonly string[] = ["/bin/sh", "-c", `${script}exec sleep infinity`]

/** The fleet restarts a runner by running the entry point, which would not end before the runner does. */
export const argvOf = ({ argv }: SandboxCommand): readonly string[] =>
  argv[0] === START ? startRunner : argv

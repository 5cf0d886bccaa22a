/** Runs one long-lived program by the service machine: spawns it, waits until it is ready, restarts it, ends its group. */
import { type Clock, sleep } from "../../lib/clock.ts"
import { describeError } from "../../lib/log.ts"
import { signalGroup } from "../../lib/signal-group.ts"
import {
  defaultServicePolicy,
  idleService,
  type ServiceEvent,
  type ServicePolicy,
  type ServiceState,
  stepService,
} from "./service-state.ts"

export interface SupervisedProgram {
  /** The program that is not installed, if any. */
  readonly missing?: () => string | undefined
  /** Runs before each start. A failure counts as a crash. */
  readonly prepare?: () => Promise<void>
  /** Starts it in a process group of its own. */
  readonly spawn: () => Bun.Subprocess
  readonly isReady: (pid: number) => boolean | Promise<boolean>
  /** A program that is not ready after this time is ended and restarted. Without it, it has unlimited time. */
  readonly startLimitMs?: number
  /** True: an exit with code 0 is the end and is not followed by a restart. */
  readonly mayFinish?: boolean
  /** Creates the receiver of one output stream. */
  readonly output: () => OutputReceiver
  /** Called when the phase changes. */
  readonly onChange: (state: ServiceState) => void
  readonly clock: Clock
  readonly policy?: ServicePolicy
}

export interface OutputReceiver {
  /** The stream is read on when the result has resolved. */
  readonly push: (bytes: Uint8Array) => void | Promise<void>
  readonly end: () => void
}

export interface Supervised {
  readonly start: () => void
  /** Resolves when the program is ready. */
  readonly ready: () => Promise<void>
  readonly state: () => ServiceState
  readonly pid: () => number | undefined
  readonly stop: () => Promise<void>
}

const PROBE_MS = 50
const END_GRACE_MS = 1500

export const supervise = (program: SupervisedProgram): Supervised => {
  const { clock, policy = defaultServicePolicy } = program
  let state = idleService
  let child: Bun.Subprocess | undefined
  let cancelRest = () => {}
  let readiness = Promise.withResolvers<void>()

  const happened = (event: ServiceEvent) => {
    const [next, effects] = stepService(state, event, policy, Math.random())
    if (next !== state) {
      const isNewPhase = next.phase !== state.phase
      if (state.phase === "ready") readiness = Promise.withResolvers()
      state = next
      if (state.phase === "ready") readiness.resolve()
      if (isNewPhase) program.onChange(next)
    }
    for (const effect of effects) {
      if (effect.do === "spawn") void spawn()
      if (effect.do === "end") void end()
      if (effect.do === "rest") {
        cancelRest = clock.after(effect.ms, () => happened({ type: "rested", at: clock.now() }))
      }
    }
  }

  const spawn = async () => {
    const missing = program.missing?.()
    if (missing !== undefined) return happened({ type: "missing", program: missing })
    try {
      await program.prepare?.()
      if (state.phase !== "starting") return
      child = program.spawn()
      const mine = child
      for (const stream of [mine.stdout, mine.stderr]) {
        if (stream instanceof ReadableStream) void readAll(stream, program.output())
      }
      void awaitExit(mine)
      await probe(mine)
    } catch (error) {
      happened({ type: "exited", at: clock.now(), why: describeError(error) })
    }
  }

  const awaitExit = async (mine: Bun.Subprocess) => {
    await mine.exited
    // Children that it left behind are useless without it and may hold its port.
    signalGroup(mine.pid, "SIGKILL")
    if (child !== mine) return
    if (program.mayFinish === true && mine.exitCode === 0) return happened({ type: "finished" })
    happened({ type: "exited", at: clock.now(), why: exitReason(mine) })
  }

  const probe = async (mine: Bun.Subprocess) => {
    const until = clock.now() + (program.startLimitMs ?? Number.POSITIVE_INFINITY)
    while (mine.exitCode === null && mine.signalCode === null) {
      if (await program.isReady(mine.pid)) return happened({ type: "answers" })
      if (clock.now() >= until) return happened({ type: "late" })
      await sleep(clock, PROBE_MS)
    }
  }

  const end = async () => {
    cancelRest()
    const mine = child
    if (mine === undefined) return
    signalGroup(mine.pid, "SIGTERM")
    const cancel = clock.after(END_GRACE_MS, () => signalGroup(mine.pid, "SIGKILL"))
    await mine.exited
    cancel()
    signalGroup(mine.pid, "SIGKILL")
  }

  return {
    start: () => happened({ type: "start", at: clock.now() }),
    ready: () => readiness.promise,
    state: () => state,
    pid: () => (state.phase === "starting" || state.phase === "ready" ? child?.pid : undefined),
    stop: async () => {
      happened({ type: "stop" })
      await end()
    },
  }
}

const exitReason = ({ signalCode, exitCode }: Bun.Subprocess): string =>
  signalCode === null ? `exited with code ${exitCode}` : `killed by ${signalCode}`

const readAll = async (stream: ReadableStream<Uint8Array>, receiver: OutputReceiver) => {
  for await (const bytes of stream) await receiver.push(bytes)
  receiver.end()
}

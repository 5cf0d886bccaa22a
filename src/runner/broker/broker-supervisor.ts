/**
 * The runner's side of the broker process: starts it, adopts the one of a killed runner, gives it the providers, and
 * starts it again when it is gone. Port and token stay the same for a boot, because OpenCode's configuration holds them.
 */
import { freePort } from "../../lib/free-port.ts"
import { parseJson } from "../../lib/json.ts"
import { randomBytes } from "node:crypto"
import { z } from "zod"
import { type Clock, sleep, within } from "../../lib/clock.ts"
import type { Log } from "../../lib/log.ts"
import { type BrokerOrder, PORT_IN_USE_EXIT, STOP_PATH, UPSTREAMS_PATH } from "./broker-process.ts"
import { orderKeyOf, openReply, sealOrder } from "./sealed-orders.ts"
import type { Service } from "./services.ts"
import { chooseSocket, isUsableSocket, removeSocketFolder } from "./socket-path.ts"
import type { Upstream } from "./upstreams.ts"

export interface BrokerSupervisorOptions {
  /** The command that starts this program. */
  readonly self: readonly string[]
  readonly stateDir: string
  /** An empty one means that boots cannot be told apart: port and token are new every time. */
  readonly bootId: string
  readonly version: string
  /** Encrypts the orders. Undefined where the runner has no token, as under `sandpiper up`: the agent can read them there. */
  readonly secret: string | undefined
  readonly memory: {
    readonly read: () => string | undefined
    readonly write: (text: string) => void
  }
  readonly environment: Readonly<Record<string, string | undefined>>
  /** For so long a broker waits for the next runner, and for three renewals at least. 0: for any time. */
  readonly leaseSeconds: number
  readonly clock: Clock
  readonly log: Log
}

export interface BrokerSupervisor {
  readonly port: number
  /** What OpenCode needs for its model calls. */
  readonly address: { readonly origin: string; readonly token: string }
  readonly start: () => void
  /** Resolves when the broker has them, or after a few seconds without a broker. */
  readonly setUpstreams: (
    upstreams: Readonly<Record<string, Upstream>>,
    services?: Readonly<Record<string, Service>>,
  ) => Promise<void>
  readonly stop: () => Promise<void>
}

interface BrokerOrders {
  readonly models: Readonly<Record<string, Upstream>>
  readonly services: Readonly<Record<string, Service>>
}

/** `stateDir`: of the runner that has started it. A copy of the state directory elsewhere names the broker of the original. */
const stored = z.object({
  boot: z.string(),
  token: z.string(),
  port: z.int(),
  socket: z.string(),
  stateDir: z.string().optional(),
})
type Stored = z.output<typeof stored>

/** Where the runner stores what it knows of its broker. */
export const BROKER_FACT = "agent.broker"
/** The broker's lease is renewed this often. */
const RENEW_MS = 10_000
const RETRY_MS = 50
const START_LIMIT_MS = 10_000
const FAILED_MS = 1000
const GIVE_MS = 5000
const CALL_LIMIT_MS = 5000

export const createBrokerSupervisor = (options: BrokerSupervisorOptions): BrokerSupervisor => {
  const { clock, log, version } = options
  const { token, port, socket } = remember(options)
  const orderKey = orderKeyOf(options.secret ?? token, token)
  /** A time, so that the orders of the next runner have higher numbers. */
  let lastOrder = 0
  /** Undefined until the first configuration: OpenCode may use the keys of an adopted broker meanwhile. */
  let upstreams: BrokerOrders | undefined
  let given = Promise.withResolvers<void>()
  let wake = new AbortController()
  let child: Bun.Subprocess | undefined
  const stopped = new AbortController()

  const call = (path: string, body: string) => callBroker(socket, path, body)
  const renew = async (): Promise<boolean> => {
    const sent = upstreams
    const number = Math.max(clock.now(), lastOrder + 1)
    lastOrder = number
    const answer = await call(UPSTREAMS_PATH, sealOrder(orderKey, { number, ...sent }))
    const reply = answer === undefined ? undefined : openReply(orderKey, answer)
    const isUp = reply?.number === number && reply.version === version
    if (isUp && sent === upstreams) given.resolve()
    return isUp
  }
  const stopBroker = () => call(STOP_PATH, "")

  const spawn = (): void => {
    const order: BrokerOrder = {
      token,
      port,
      socket,
      version,
      orderKey,
      lastOrder,
      leaseSeconds: leaseOf(options.leaseSeconds),
    }
    const started = Bun.spawn([...options.self, "key-broker"], {
      env: brokerEnvironment(options.environment),
      cwd: "/",
      stdin: Buffer.from(JSON.stringify(order)),
      stdout: "ignore",
      stderr: "ignore",
      // A process session of its own: a signal to the runner's group does not reach it.
      detached: true,
    })
    // The runner ends without waiting for it.
    started.unref()
    child = started
    void reportEnd(started)
  }
  const reportEnd = async ({ exited }: Bun.Subprocess): Promise<void> => {
    const code = await exited
    if (stopped.signal.aborted) return
    const why = code === PORT_IN_USE_EXIT ? `port ${port} is in use` : `exit code ${code}`
    log.warn("broker.ended", { why })
    wake.abort()
  }

  const ensure = async (): Promise<void> => {
    if (await renew()) return
    // One of another version, or of a runner with another token, may still listen.
    await stopBroker()
    spawn()
    const limit = clock.now() + START_LIMIT_MS
    while (!stopped.signal.aborted && clock.now() < limit && child?.exitCode === null) {
      await sleep(clock, RETRY_MS, stopped.signal)
      if (await renew()) return
    }
    if (stopped.signal.aborted) return
    log.error("broker.not-started", { port })
    await sleep(clock, FAILED_MS, stopped.signal)
  }

  const keep = async (): Promise<void> => {
    while (!stopped.signal.aborted) {
      wake = new AbortController()
      await ensure()
      // A change that came in during `ensure` has aborted `wake` already.
      await sleep(clock, RENEW_MS, AbortSignal.any([wake.signal, stopped.signal]))
    }
  }
  let keeping: Promise<void> | undefined

  return {
    port,
    address: { origin: `http://127.0.0.1:${port}`, token },
    start: () => {
      keeping ??= keep()
    },
    setUpstreams: async (models, services = {}) => {
      upstreams = { models, services }
      given.resolve()
      given = Promise.withResolvers<void>()
      wake.abort()
      await within(clock, GIVE_MS, given.promise)
    },
    stop: async () => {
      stopped.abort()
      given.resolve()
      await stopBroker()
      if (child && !(await within(clock, 300, child.exited))) child.kill("SIGKILL")
      await keeping
      removeSocketFolder(socket)
    },
  }
}

const leaseOf = (seconds: number): number =>
  seconds === 0 ? 0 : Math.max(seconds, (3 * RENEW_MS) / 1000)

const callBroker = async (
  socket: string,
  path: string,
  body: string,
): Promise<string | undefined> => {
  try {
    const response = await fetch(`http://broker${path}`, {
      unix: socket,
      method: "PUT",
      body,
      signal: AbortSignal.timeout(CALL_LIMIT_MS),
      // A connection that was kept could lead to a broker that is no longer the one of this socket.
      keepalive: false,
      proxy: "",
    })
    const text = await response.text()
    return response.ok ? text : undefined
  } catch {
    return undefined
  }
}

/** Ends the broker that a runner of this state directory has left running. `memory`: what that runner has stored of it. */
export const endLeftBroker = async (memory: string, stateDir: string): Promise<void> => {
  const known = stored.safeParse(parseJson(memory)).data
  if (known === undefined) return
  const { socket } = known
  const isInside = socket.startsWith(`${stateDir}/`)
  const isOurs = isInside || (known.stateDir === stateDir && isUsableSocket(socket, stateDir))
  if (!isOurs) return
  await callBroker(socket, STOP_PATH, "")
  removeSocketFolder(socket)
}

const remember = ({ memory, bootId, stateDir }: BrokerSupervisorOptions): Stored => {
  const known = stored.safeParse(parseJson(memory.read() ?? "")).data
  const isThisBoot = known !== undefined && bootId !== "" && known.boot === bootId
  if (isThisBoot && isUsableSocket(known.socket, stateDir)) return known
  if (known) removeSocketFolder(known.socket)
  const fresh = {
    boot: bootId,
    token: isThisBoot ? known.token : randomBytes(32).toString("hex"),
    port: isThisBoot ? known.port : freePort(),
    socket: chooseSocket(stateDir),
    stateDir,
  }
  memory.write(JSON.stringify(fresh))
  return fresh
}

/** How the machine reaches the internet, and nothing else. */
const brokerEnvironment = (
  environment: Readonly<Record<string, string | undefined>>,
): Record<string, string> =>
  Object.fromEntries(
    Object.entries(environment).flatMap(([name, value]) =>
      value !== undefined &&
      /^(PATH|TZ|LANG|(https?|all|no)_proxy|SSL_CERT_(FILE|DIR)|NODE_EXTRA_CA_CERTS)$/i.test(name)
        ? [[name, value]]
        : [],
    ),
  )

/**
 * A disk that goes from one session to another: what the second one's session agent, its agent and its disk have of the first.
 * The runner, OpenCode and the model calls are real; the disk goes by the same directory, by a local snapshot, by one of Modal.
 */
import { afterAll, afterEach, beforeAll, expect, test } from "bun:test"
import { existsSync, readFileSync } from "node:fs"
import { mkdir } from "node:fs/promises"
import { join } from "node:path"
import type { SandboxProvider } from "../../src/fleet/providers/contract.ts"
import { createLocalProvider } from "../../src/fleet/providers/local.ts"
import { createModalProvider } from "../../src/fleet/providers/modal.ts"
import { systemClock } from "../../src/lib/clock.ts"
import { isAlive, type ProcessIdentity } from "../../src/lib/process-identity.ts"
import { carriersOf, listProcesses } from "../../src/runner/host/processes.ts"
import { CLOUD_IMAGE } from "../fleet/kit/cloud.ts"
import { MODAL_TOKEN_ID, MODAL_TOKEN_SECRET, startModalDouble } from "../fleet/kit/modal-double.ts"
import { valueOf } from "../fleet/provider-contract.ts"
import {
  agentOfFirst,
  canariesInFrames,
  canariesOn,
  canary,
  endUnheard,
  environmentOfFirst,
  type FirstSession,
  liveFirst,
  scriptFirst,
} from "../kit/first-session.ts"
import { freePort } from "../kit/free-port.ts"
import { silentLog } from "../kit/log.ts"
import { type ScriptedModel, startScriptedModel, text } from "../kit/model.ts"
import { createSandbox, requireBinary, type Sandbox, scriptedConfig } from "../kit/runner.ts"
import { startTestSessionAgent, type TestSessionAgent } from "../kit/session-agent.ts"
import { untilTrue } from "../kit/until-true.ts"

/** What runs on a disk, and where. */
interface Place {
  /** All files of the disk. */
  readonly disk: string
  readonly stateDir: string
  readonly home: string
  readonly gatewayUrl: string
}

interface Machine {
  readonly start: (environment: Record<string, string>) => Promise<Place>
  /** The first session's sandbox ends now, as it is; the next start has its disk. */
  readonly handOver: () => Promise<void>
  readonly end: () => Promise<void>
}

let model: ScriptedModel
let base: Sandbox
const stops: (() => unknown)[] = []
beforeAll(async () => {
  base = await createSandbox({ url: "ws://127.0.0.1:1/", token: "-" })
})
afterEach(async () => {
  for (const stop of stops.splice(0).toReversed()) await stop()
})
afterAll(() => base.remove())

const settingsOf = (given: Record<string, string>): Record<string, string> => {
  const { PATH = "", OPENCODE_BIN = "" } = base.environment
  return { PATH, OPENCODE_BIN, SANDPIPER_SERVICES: "none", LOG_LEVEL: "error", ...given }
}

/** A runner as start.sh starts it, on a disk that is this folder. */
const runOn = async (disk: string, given: Record<string, string>) => {
  const [home, stateDir, workDir] = ["home", "state", "workspace"].map((name) => join(disk, name))
  for (const folder of [home, workDir]) await mkdir(folder ?? "", { recursive: true })
  const port = freePort()
  const child = Bun.spawn([requireBinary(), "run"], {
    env: {
      ...settingsOf(given),
      HOME: home,
      WORK_DIR: workDir,
      SANDPIPER_STATE_DIR: stateDir,
      SANDPIPER_OWN_DISK: "1",
      GATEWAY_HOST: "127.0.0.1",
      GATEWAY_PORT: String(port),
      OPENCODE_URL: "http://127.0.0.1:0",
    },
    stdio: ["ignore", "ignore", "inherit"],
  })
  const gatewayUrl = `http://127.0.0.1:${port}`
  return { child, place: { disk, home: home ?? "", stateDir: stateDir ?? "", gatewayUrl } }
}

const endChild = async (child: Bun.Subprocess): Promise<void> => {
  child.kill("SIGTERM")
  await child.exited
}

const sameDirectory = async (): Promise<Machine> => {
  const sandbox = await createSandbox({ url: "ws://127.0.0.1:1/", token: "-" })
  stops.push(sandbox.remove)
  let child: Bun.Subprocess | undefined
  return {
    start: async (environment) => {
      const started = await runOn(join(sandbox.root, "disk"), environment)
      child = started.child
      return started.place
    },
    // OpenCode, the broker and the service stay.
    handOver: async () => {
      child?.kill("SIGKILL")
      await child?.exited
    },
    end: async () => child && endChild(child),
  }
}

const LIFE = { idleMs: 900_000, lifeMs: 3_600_000 } as const
const specOf = (environment: Record<string, string>, image: string, snapshot?: string) => {
  const session = environment["SESSION_ID"] ?? ""
  return {
    session,
    generation: 1,
    name: `sp-${session}`,
    labels: { deployment: "d", tenant: "t", session, generation: "1" },
    image:
      snapshot === undefined
        ? ({ kind: "image", id: image } as const)
        : ({ kind: "snapshot", id: snapshot } as const),
    environment,
    volumes: [],
    ports: [9000],
    resources: {},
    ...LIFE,
  }
}
const limit = () => AbortSignal.timeout(60_000)

const snapshotOf = async (provider: SandboxProvider, ref: string): Promise<string> => {
  const { id } = valueOf(await provider.snapshot(ref, "disk", limit()))
  return id
}

const localSnapshot = async (): Promise<Machine> => {
  const sandbox = await createSandbox({ url: "ws://127.0.0.1:1/", token: "-" })
  stops.push(sandbox.remove)
  const root = join(sandbox.root, "fleet")
  const provider = createLocalProvider({ root, self: [requireBinary()], clock: systemClock })
  let ref = ""
  let snapshot: string | undefined
  return {
    start: async (environment) => {
      const settings = settingsOf({ ...environment, HOME: join(sandbox.root, "home") })
      ref = valueOf(await provider.create(specOf(settings, "-", snapshot), limit())).ref
      const { url } = valueOf(await provider.address(ref, 9000))
      const disk = join(root, "files", environment["SESSION_ID"] ?? "")
      // The home is the person's own.
      const home = join(sandbox.root, "elsewhere")
      return { disk, home, stateDir: join(disk, "state"), gatewayUrl: url.replace(/\/$/, "") }
    },
    handOver: async () => {
      snapshot = await snapshotOf(provider, ref)
      valueOf(await provider.terminate(ref))
    },
    end: async () => void (await provider.terminate(ref)),
  }
}

const modalSnapshot = async (): Promise<Machine> => {
  const double = await startModalDouble()
  stops.push(double.stop)
  process.env["MODAL_SERVER_URL"] = double.url
  const provider = createModalProvider({
    tokenId: MODAL_TOKEN_ID,
    tokenSecret: MODAL_TOKEN_SECRET,
    app: "sandpiper",
    idleBufferMs: 1_800_000,
    clock: double.clock,
    log: silentLog,
  })
  let ref = ""
  let snapshot: string | undefined
  let child: Bun.Subprocess | undefined
  return {
    start: async (environment) => {
      ref = valueOf(await provider.create(specOf(environment, CLOUD_IMAGE, snapshot), limit())).ref
      const box = double.cloud.boxes.get(ref)
      if (!box) throw new Error(`no box ${ref}`)
      const started = await runOn(box.folder, environment)
      child = started.child
      return started.place
    },
    handOver: async () => {
      snapshot = await snapshotOf(provider, ref)
      if (child) await endChild(child)
      valueOf(await provider.terminate(ref))
    },
    end: async () => {
      if (child) await endChild(child)
      await provider.terminate(ref)
    },
  }
}

const machines = { sameDirectory, localSnapshot, modalSnapshot } as const
const cases = [
  [
    "on the same state directory, whose runner was killed right after a turn,",
    "sameDirectory",
    true,
  ],
  ["on the same state directory, whose runner was killed later,", "sameDirectory", false],
  ["from a local snapshot that was made right after a turn", "localSnapshot", true],
  ["from a local snapshot that was made later", "localSnapshot", false],
  ["from a snapshot of Modal that was made right after a turn", "modalSnapshot", true],
  ["from a snapshot of Modal that was made later", "modalSnapshot", false],
] as const

const untilHealthy = ({ gatewayUrl }: Place): Promise<void> =>
  untilTrue(
    () =>
      fetch(`${gatewayUrl}/health`).then(
        ({ ok }) => ok,
        () => false,
      ),
    "the gateway",
  )

const wordInServiceLog = `/services/web.log: ${canary.serviceLog}`

const firstOn = async (machine: Machine, open: PromiseWithResolvers<void>, unheard: boolean) => {
  scriptFirst(model, open.promise)
  const agent = agentOfFirst({
    config: { ...scriptedConfig(model), instructions: [canary.instructions] },
  })
  stops.push(agent.stop)
  const place = await machine.start(environmentOfFirst(agent))
  await untilHealthy(place)
  const first: FirstSession = { agent, ...place }
  await liveFirst(first)
  // The log itself: OpenCode's files have the word before, in the call of the tool that wrote it to a file for the service.
  await untilTrue(
    () => canariesOn(place.stateDir).some((one) => one.endsWith(wordInServiceLog)),
    "word in the log of the service",
  )
  if (unheard) await endUnheard(first, open.resolve)
  return place
}

const answerIn = ({ frames }: TestSessionAgent, messageId: string): string =>
  frames
    .flatMap((frame) =>
      frame.type === "message.part.text-delta" && frame.messageId === messageId
        ? [frame.delta]
        : [],
    )
    .join("")

test.each(cases)(
  "another session %s gets nothing of the first one and works with its first prompt",
  async (_name, kind, unheard) => {
    model = await startScriptedModel({ title: canary.title })
    stops.push(model.stop)
    const other = await startScriptedModel({ title: "The second title" })
    stops.push(other.stop)
    const machine = await machines[kind]()
    stops.push(machine.end)
    const before = await firstOn(machine, Promise.withResolvers<void>(), unheard)
    const record = join(before.stateDir, "session/opencode-run.json")
    const former = JSON.parse(readFileSync(record, "utf8")) as ProcessIdentity
    const found = canariesOn(before.disk).join("\n")
    const expected = [
      canary.answer,
      canary.title,
      canary.toolOutput,
      canary.fileName,
      canary.prompt,
      wordInServiceLog,
    ]
    for (const one of expected) expect(found).toContain(one)
    await machine.handOver()

    other.on("second", [text("The second answer.")])
    const agent = startTestSessionAgent({ config: scriptedConfig(other) })
    stops.push(agent.stop)
    const place = await machine.start({
      SESSION_ID: "second",
      DO_WS_URL: agent.url,
      RUNNER_TOKEN: agent.token,
      JWT_SECRET: "a key of the second session",
    })
    await agent.frame("agentStatus", ({ status }) => status === "idle")
    agent.say({ type: "prompt", messageId: "p2", content: "@@second@@ Hello." })
    const final = await agent.frame("message.finalize", ({ messageId }) => messageId === "p2")
    expect(final).not.toHaveProperty("error")
    expect(answerIn(agent, "p2")).toBe("The second answer.")
    expect(await agent.frame("title")).toMatchObject({ title: "The second title" })
    expect(JSON.stringify(other.requests)).not.toContain("canary-")
    expect(canariesInFrames(agent)).toEqual([])
    expect(existsSync(join(place.stateDir, "session"))).toBeTrue()
    expect(canariesOn(place.disk)).toEqual([])
    // The OpenCode of the first session does not run, and the one that runs is of this start.
    const now = JSON.parse(
      readFileSync(join(place.stateDir, "session/opencode-run.json"), "utf8"),
    ) as { readonly pid: number; readonly mark: string }
    expect(now.pid).not.toBe(former.pid)
    const marked = carriersOf("SANDPIPER_AGENT_RUN", now.mark, listProcesses())
    expect(marked.map((row) => row.pid)).toContain(now.pid)
    expect(isAlive(former)).toBeFalse()
  },
  170_000,
)

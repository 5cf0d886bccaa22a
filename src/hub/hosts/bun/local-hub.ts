/** The complete session agent of one machine: sessions, their shared store, child sessions and the git host. */
import { randomBytes } from "node:crypto"
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import type { Clock } from "../../../lib/clock.ts"
import type { Log } from "../../../lib/log.ts"
import type { RequestFrame } from "../../../wire/frames/index.ts"
import { startHub } from "./bun-host.ts"
import type { Hub, HubOptions } from "./hub-options.ts"
import { openBunSql } from "./sql.ts"
import { configureChats } from "../../adapters/configured-chats.ts"
import { createChildren, endAfterWorkflow } from "../../handlers/children.ts"
import { createLocalChildren } from "./local-children.ts"
import { createWorktrees } from "./git-worktree.ts"
import { createLocalSessions } from "./local-sessions.ts"
import { createRunnerProcesses } from "./runner-processes.ts"
import { sessionDeliveries } from "../../shared-store/session-deliveries.ts"
import { createGitHost } from "../../handlers/git-host.ts"
import { withGitRetries } from "../../handlers/git-retries.ts"
import { hasGitHost, localGit } from "./git-host.ts"
import { toolSwitchesOf } from "../../tool-switches.ts"
import { configureObjectStorage } from "../../object-storage.ts"
import { createExternalHandlers } from "../../handlers/external-requests.ts"
import { runWorkflowInCheckout } from "../../handlers/workflow-in-checkout.ts"
import { takeHook } from "../../shared-store/webhook.ts"
import { answerExternalRequest, Refusal } from "../../handlers/handler-table.ts"
import { mailReaderOf } from "../../access/mail-reader.ts"
import { guardRequest } from "../../access/guard-requests.ts"
import { LOCAL_OWNER, type Owner } from "../../access/ownership.ts"
import type { JwtSettings } from "../../access/verify-jwt.ts"
import { gatewayKey } from "../../keys.ts"
import { createOwnerStores } from "./owner-stores.ts"

export interface LocalHubOptions {
  readonly stateDir: string
  /** The workspace of the first session; child sessions have their own. */
  readonly workDir: string
  readonly port: number
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly clock: Clock
  readonly log: Log
  readonly clientToken: string
  readonly maxChildren?: number
  readonly maxChildDepth?: number
  /** Origins of web pages that may call the hub, besides its own. */
  readonly allowedOrigins?: readonly string[] | undefined
  /** How people prove who they are; absent in `up`, which has one owner. */
  readonly jwt?: JwtSettings
  /** HUB_ENCRYPTION_KEY; a key file in the state directory if it is not set. */
  readonly encryptionKey?: string | undefined
  /** The gateway key of a session whose runner has one of its own (JWT_SECRET). */
  readonly gatewayKey?: (session: string) => string | undefined
  /** Takes messages of chat services that name no session. */
  readonly chatSession?: (() => string) | undefined
  /** A person may start more sessions on this machine; they get the config of this one. Absent: the hub starts none. */
  readonly firstSession?: (() => string) | undefined
  /** The agent's user; absent if the agent runs as the hub's own. */
  readonly agentUser?:
    | { readonly uid: number; readonly gid: number; readonly home: string }
    | undefined
  /** The command that starts this program, if it is not the running executable. */
  readonly self?: readonly string[]
  /** The control plane in the same process, if there is one: it also starts the sandboxes of child sessions. */
  readonly activity?: HubOptions["activity"]
  readonly routes?: HubOptions["routes"]
  readonly gatewayUrl?: HubOptions["gatewayUrl"]
  readonly warmSessions?: HubOptions["warmSessions"]
  readonly gitCredentials?: HubOptions["gitCredentials"]
  readonly hostname?: HubOptions["hostname"]
  readonly names?: HubOptions["names"]
  readonly page?: HubOptions["page"]
  readonly wrongSecrets?: HubOptions["wrongSecrets"]
}

export interface LocalHub extends Hub {
  /** Continues after a restart: children, triggers, workflow runs. */
  readonly resume: () => Promise<void>
  /** For a session's config: tools off that this hub cannot serve, and on that it has something for. */
  readonly toolSwitches: () => Readonly<Record<string, boolean>>
  /** The key that the gateway of this session's sandbox checks. */
  readonly gatewayKey: (session: string, generation: number) => Promise<string>
  /** Ends a session and its child sessions. */
  readonly end: (session: string, why: string) => Promise<void>
}

export const startLocalHub = async (options: LocalHubOptions): Promise<LocalHub> => {
  const { stateDir, environment, clock, log } = options
  const folder = join(stateDir, "hub")
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  // The shared store of `user:local` (existing state directories have this file name), and the child processes of all
  // owners, whose rows are found by id or parent only.
  const sql = openBunSql(join(folder, "commons.db"))
  const stores = createOwnerStores({
    folder,
    localSql: sql,
    clock,
    // A store reaches the sessions of its owner only.
    deliveries: (owner) =>
      sessionDeliveries(
        (session) =>
          hub.hosted(session)?.access.owner() === owner ? hub.find(session) : undefined,
        () => createGitHost(gitOf(owner)),
      ),
    report: (event, fields) => log.warn(event, fields),
  })
  // The tables of this store are also read below, before the first request.
  stores.of(LOCAL_OWNER)

  const gitOf = memoize((owner: Owner) =>
    localGit({
      owner,
      environment,
      showPull: (session, pull) => hub.find(session)?.showPull(pull),
      workDir: (session) => {
        const own = join(stateDir, "children", encodeURIComponent(session), "workspace")
        if (existsSync(own)) return own
        // With a fleet every checkout is in a sandbox.
        if (options.activity) return undefined
        // The working directory belongs to the operator's session. Other owners' runners are elsewhere.
        return owner === LOCAL_OWNER ? options.workDir : undefined
      },
    }),
  )

  const answer = async (session: string, frame: RequestFrame) => {
    const caller = hub.hosted(session)
    if (!caller) throw new Refusal(`there is no session ${session}`)
    const runner = caller.access.runner()
    await guardRequest(runner, frame, (id) => hub.hosted(id)?.access.target())
    const store = stores.of(runner.owner)
    return (
      (await runWorkflowInCheckout(
        { children, origin: gitOf(runner.owner).origin, answer: store.answer },
        session,
        frame,
      )) ??
      store.answer(session, frame, mailReaderOf(runner.owner, caller.access.creator())) ??
      answerExternalRequest(externalHandlers(runner.owner), frame, {
        session,
        requestId: frame.requestId,
      })
    )
  }

  const master = readMaster(join(folder, "master.key"))
  const chats = configureChats({
    environment,
    now: clock.now,
    defaultSession: options.chatSession,
  })
  const storage = configureObjectStorage(environment, clock.now)
  const gatewayKeyOf = async (session: string, generation: number) =>
    options.gatewayKey?.(session) ?? gatewayKey(master, session, generation)
  const hub = await startHub({
    chats,
    storage,
    stateDir,
    port: options.port,
    clock,
    log,
    clientToken: options.clientToken,
    ...(options.allowedOrigins && { allowedOrigins: options.allowedOrigins }),
    answer,
    jwt: options.jwt ?? {},
    encryptionKey: options.encryptionKey,
    gatewayKey: gatewayKeyOf,
    activity: options.activity,
    routes: options.routes,
    gatewayUrl: options.gatewayUrl,
    warmSessions: options.warmSessions,
    gitCredentials: options.gitCredentials,
    hostname: options.hostname,
    names: options.names,
    page: options.page,
    wrongSecrets: options.wrongSecrets,
    workflowReported: ({ id, session, access }, execution, envelope, reportId) => {
      stores.of(access.owner()).executed(execution, envelope, reportId)
      const why = endAfterWorkflow(session, execution, envelope.status)
      if (why !== undefined) void terminate(id, why)
    },
    decideExecution: async (session, decision) =>
      stores.of(hub.hosted(session)?.access.owner() ?? LOCAL_OWNER).decide(session, decision),
    personas: (owner) => stores.of(owner).personas,
    setHandle: (owner, handle, session) => stores.of(owner).setHandle(handle, session),
    staysOpen: (session) => session === options.firstSession?.(),
    ended: (session) => {
      void children.endAll(session)
      // A session that has completed itself has no runner to stop here.
      localChildren.ended(session)
    },
    localSessions: () => localSessions,
    terminate: (session) => terminate(session, "ended by a client"),
    hook: (trigger, request) => takeHook(stores, trigger, request),
  })
  const processes = createRunnerProcesses({
    stateDir,
    self: options.self ?? ownProgram(),
    environment,
    master,
    create: hub.create,
    runnerUrl: hub.runnerUrl,
    // Also ends its child sessions. A session that has completed itself keeps its reason.
    ended: (session, why) => terminate(session, why),
    clock,
    log,
  })
  const localChildren = createLocalChildren({ sql, environment, processes, clock })
  const children = createChildren({
    find: (session) => hub.hosted(session),
    directory: hub.directory,
    sessions: {
      provision: hub.provision,
      prompt: (child, ...prompt) => mustFind(child).prompt(...prompt),
      status: (child) => mustFind(child).status(),
      parentOf: (child) => hub.hosted(child)?.access.target().ancestors?.[0],
      terminate: async (child, owner, why, quiet) => {
        if (hub.hosted(child)?.access.owner() === owner) await terminate(child, why, { quiet })
      },
    },
    limits: { maxChildren: options.maxChildren, maxDepth: options.maxChildDepth },
    refusalOf: ({ access }) =>
      options.activity || access.owner() === LOCAL_OWNER ? undefined : OPERATOR_ONLY,
    // With a fleet its queued task is what starts the sandbox.
    local: options.activity ? undefined : localChildren,
    report: (event, fields) => log.warn(event, fields),
  })
  const mustFind = (session: string) => {
    const found = hub.find(session)
    if (!found) throw new Refusal(`there is no session ${session}`)
    return found
  }
  const { firstSession, agentUser } = options
  const localSessions =
    firstSession &&
    createLocalSessions({
      sql,
      workDir: options.workDir,
      processes,
      worktrees: createWorktrees({
        workDir: options.workDir,
        path: environment["PATH"],
        home: environment["HOME"],
        user: agentUser,
      }),
      find: hub.find,
      firstSession,
      user: agentUser,
      maxSessions: options.maxChildren ?? MAX_SESSIONS,
      clock,
      log,
    })
  /** Descendants first: a parent that has ended cannot end them any more. */
  const terminate = async (session: string, why: string, how?: { readonly quiet?: boolean }) => {
    const found = hub.find(session)
    if (found) await children.endAll(session)
    found?.terminate(why, how)
    localChildren.ended(session)
    await processes.stop(session)
    await localSessions?.ended(session)
  }
  const externalHandlers = memoize((owner: Owner) =>
    createExternalHandlers({
      find: async (session) => hub.find(session),
      children,
      personas: () => stores.of(owner).personas.list(),
      git: withGitRetries(createGitHost(gitOf(owner)), stores.of(owner).retryGit),
      storage,
      chatProblem: chats.problemOf,
    }),
  )

  return {
    ...hub,
    gatewayKey: gatewayKeyOf,
    end: terminate,
    toolSwitches: () =>
      toolSwitchesOf({
        hasGitHost: hasGitHost(environment),
        hasWorkflows: sql.all("SELECT id FROM workflows LIMIT 1").length > 0,
      }),
    resume: async () => {
      stores.start()
      if (!options.activity) await localChildren.resume()
      await localSessions?.resume()
    },
    stop: async () => {
      stores.stop()
      await processes.stopAll()
      await hub.stop()
      stores.close()
      sql.close()
    },
  }
}

/** Sessions that a person starts on this machine. */
const MAX_SESSIONS = 20

/** Child sessions are processes with this machine's files and the operator's accounts. */
const OPERATOR_ONLY =
  "this hub starts child sessions on its own machine, for its operator only: create a session and start a runner for it"

const memoize = <Key, Value>(make: (key: Key) => Value): ((key: Key) => Value) => {
  const made = new Map<Key, Value>()
  return (key) => {
    const value = made.get(key) ?? make(key)
    made.set(key, value)
    return value
  }
}

/** The compiled program is one file; from source it is the Bun executable with main.ts. */
const ownProgram = (): readonly string[] =>
  import.meta.path.startsWith("/$bunfs/")
    ? [process.execPath]
    : [process.execPath, join(import.meta.dir, "../../..", "main.ts")]

const readMaster = (file: string): string => {
  if (!existsSync(file)) writeFileSync(file, randomBytes(32).toString("hex"), { mode: 0o600 })
  return readFileSync(file, "utf8").trim()
}

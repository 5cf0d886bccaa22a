/** Every command and every setting, an entry each: parsing, the line of help and the redaction follow from it. */
import { homedir } from "node:os"
import { join } from "node:path"
import { z } from "zod"
import { isLoopback } from "../lib/git-url.ts"
import {
  gitDepth,
  gitName,
  gitUrl,
  jsonOf,
  personaList,
  repositoryList,
  serviceList,
} from "./fields.ts"

export type CommandName =
  | "run"
  | "up"
  | "chat"
  | "sessions"
  | "doctor"
  | "git-credential"
  | "read-pdf"
  | "hook"
  | "workflow"

export interface Setting<Schema extends z.ZodType = z.ZodType> {
  readonly env: string
  readonly flag?: string
  readonly doc: string
  readonly schema: Schema
  /** Used when neither flag nor variable is set; `undefined` leaves the knob unset. */
  readonly fallback?: (context: Context) => string
  readonly requiredBy?: readonly CommandName[]
  readonly secret?: true
}

export interface Context {
  readonly command: CommandName
  readonly env: Environment
  readonly cwd: string
}

export type Environment = Readonly<Record<string, string | undefined>>

const secret = z.string().min(16, "must be at least 16 characters long")
const seconds = z.coerce
  .number("must be a number of seconds")
  .min(0, "must not be negative")
  .max(86_400, "must be at most a day (86400)")
const port = z.coerce
  .number("must be a port number, 0 to 65535")
  .int("must be a port number, 0 to 65535")
  .min(0, "must be a port number, 0 to 65535")
  .max(65_535, "must be a port number, 0 to 65535")
const directory = z.string().min(1, "must be a directory")

/** Parsed once to be sure of its form; kept as text, since a URL object is mutable. */
const urlWith = (expected: string, fits: (url: URL) => boolean) =>
  z.string().refine((text) => URL.canParse(text) && fits(new URL(text)), { error: expected })

const listOf = (text: string): readonly string[] =>
  text.split(",").flatMap((entry) => entry.trim() || [])

const nameList = z
  .string()
  .transform(listOf)
  .refine((names) => names.every((name) => /^[A-Za-z_][A-Za-z0-9_]*$/.test(name)), {
    error: "must be names of variables separated by commas",
  })

const modelList = z
  .string()
  .transform(listOf)
  .refine((models) => models.length > 0 && models.every((model) => /^[^/\s]+\/\S+$/.test(model)), {
    error: "must be models separated by commas, such as anthropic/claude-sonnet-4,openai/*",
  })

/** Written as browsers send them; a default port or a path in one would never match. */
const originList = z
  .string()
  .transform((text) => listOf(text.toLowerCase()))
  .refine(
    (origins) =>
      origins.every((origin) => URL.canParse(origin) && new URL(origin).origin === origin),
    {
      error:
        "must be origins separated by commas, such as https://app.example.com,http://localhost:3000",
    },
  )

export const settingsTable = {
  doUrl: {
    env: "DO_WS_URL",
    flag: "do-url",
    doc: "WebSocket address of the session agent",
    schema: urlWith(
      "must be a wss:// URL (ws:// only to a loopback host)",
      (url) => url.protocol === "wss:" || (url.protocol === "ws:" && isLoopback(url.hostname)),
    ),
    requiredBy: ["run"],
  },
  runnerToken: {
    env: "RUNNER_TOKEN",
    flag: "runner-token",
    doc: "proves to the session agent that this is its runner; prefer the variable, a flag shows in `ps`",
    schema: z.string().min(1, "must not be empty"),
    requiredBy: ["run"],
    secret: true,
  },
  sessionId: {
    env: "SESSION_ID",
    flag: "session-id",
    doc: "the session this sandbox belongs to",
    schema: z.string().regex(/^[A-Za-z0-9._:-]{1,128}$/, {
      error: "must be 1 to 128 of letters, digits, dot, underscore, colon, dash",
    }),
    fallback: ({ command }) => (command === "run" ? "" : "local"),
    requiredBy: ["run"],
  },
  jwtSecret: {
    env: "JWT_SECRET",
    doc: "key of the gateway's JWTs (HS256), at least 16 characters",
    schema: secret,
    requiredBy: ["run"],
    secret: true,
  },
  gatewayPort: {
    env: "GATEWAY_PORT",
    flag: "gateway-port",
    doc: "port of the gateway, 0 for any free one",
    schema: port,
    fallback: () => "9000",
  },
  gatewayHost: {
    env: "GATEWAY_HOST",
    doc: "address the gateway listens on",
    schema: z.string().min(1, "must be an address"),
    fallback: ({ command }) => (command === "up" ? "127.0.0.1" : "0.0.0.0"),
  },
  allowedOrigins: {
    env: "ALLOWED_ORIGINS",
    doc: "origins beside the gateway's own whose pages may open its WebSockets, separated by commas",
    schema: originList.optional(),
  },
  vscodePort: {
    env: "VSCODE_PORT",
    doc: "port of code-server on this machine, behind /vscode/",
    schema: port,
    fallback: () => "8765",
  },
  vncPort: {
    env: "VNC_PORT",
    doc: "port of noVNC on this machine, behind /vnc/",
    schema: port,
    fallback: () => "6080",
  },
  ttydPort: {
    env: "TTYD_PORT",
    doc: "port of ttyd on this machine, behind /ttyd/",
    schema: port,
    fallback: () => "7681",
  },
  rawVncPort: {
    env: "VNC_RAW_PORT",
    doc: "port of the VNC server itself on this machine; only noVNC talks to it",
    schema: port,
    fallback: () => "5900",
  },
  services: {
    env: "SANDPIPER_SERVICES",
    doc: "services to start and watch: all, none, or some of vnc,vscode,ttyd",
    schema: serviceList,
    fallback: () => "none",
  },
  display: {
    env: "DISPLAY",
    doc: "the X display that the vnc service serves",
    schema: z.string().min(1),
    fallback: () => ":99",
  },
  repoUrl: {
    env: "REPO_URL",
    doc: "repository that is cloned into the workspace, and that the agent works in",
    schema: gitUrl.optional(),
  },
  repoBranch: { env: "REPO_BRANCH", doc: "branch of REPO_URL", schema: gitName.optional() },
  repoRef: {
    env: "REPO_REF",
    doc: "commit or tag of REPO_URL that a new clone stands at",
    schema: gitName.optional(),
  },
  repoDepth: {
    env: "REPO_DEPTH",
    doc: "commits of REPO_URL's history to fetch; all of them when not given",
    schema: gitDepth.optional(),
  },
  moreRepositories: {
    env: "REPOS_JSON",
    doc: "more repositories: [{url, branch?, ref?, depth?, name?, token?}, ...]",
    schema: jsonOf(
      repositoryList,
      "a JSON list of {url, branch?, ref?, depth?, name?, token?}",
    ).optional(),
    secret: true,
  },
  gitUserName: {
    env: "GIT_USER_NAME",
    doc: "name that commits are made under",
    schema: z.string().max(200).optional(),
  },
  gitUserEmail: {
    env: "GIT_USER_EMAIL",
    doc: "address that commits are made under",
    schema: z.string().max(200).optional(),
  },
  githubToken: {
    env: "GITHUB_TOKEN",
    doc: "git's password for the host of REPO_URL (github.com without one), and for no other",
    schema: z.string().min(1).optional(),
    secret: true,
  },
  gitPullOnRestore: {
    env: "GIT_PULL_ON_RESTORE",
    doc: "when a clean clone is fast-forwarded: never, restore (in a new life of the sandbox), always (at every start)",
    schema: z.enum(["never", "restore", "always"], { error: "must be never, restore or always" }),
    fallback: () => "restore",
  },
  gitPullEverySeconds: {
    env: "GIT_PULL_EVERY_SECONDS",
    doc: "no pull when the last one is younger than this",
    schema: seconds,
    fallback: () => "300",
  },
  personaFiles: {
    env: "PERSONA_FILES_JSON",
    doc: "files that the agent always reads: [{filename, content, sortOrder?}, ...]",
    schema: jsonOf(personaList, "a JSON list of {filename, content, sortOrder?}").optional(),
  },
  opencodeUrl: {
    env: "OPENCODE_URL",
    flag: "opencode-url",
    doc: "where OpenCode is to listen, always this machine; port 0 for any free one",
    schema: urlWith(
      "must be an http:// URL with a loopback host, such as http://127.0.0.1:4096",
      (url) => url.protocol === "http:" && isLoopback(url.hostname),
    ),
    fallback: ({ command }) => (command === "up" ? "http://127.0.0.1:0" : "http://127.0.0.1:4096"),
  },
  opencodePassword: {
    env: "OPENCODE_SERVER_PASSWORD",
    doc: "OpenCode's password, at least 16 characters; made at every start when not given",
    schema: secret.optional(),
    secret: true,
  },
  opencodeBin: {
    env: "OPENCODE_BIN",
    doc: "the OpenCode binary; else `opencode` beside this program or on PATH",
    schema: z.string().min(1).optional(),
  },
  workDir: {
    env: "WORK_DIR",
    flag: "work-dir",
    doc: "the directory the agent works in",
    schema: directory,
    fallback: ({ command, cwd }) => (command === "up" ? cwd : "/workspace"),
  },
  stateDir: {
    env: "SANDPIPER_STATE_DIR",
    flag: "state-dir",
    doc: "what must survive a restart: outbox, channel map, OpenCode's sessions and configuration",
    schema: directory,
    fallback: ({ env }) =>
      join(env["XDG_STATE_HOME"] || join(env["HOME"] || homedir(), ".local", "state"), "sandpiper"),
  },
  configWaitSeconds: {
    env: "CONFIG_WAIT_SECONDS",
    doc: "how long the first start of OpenCode waits for the session agent's configuration",
    schema: seconds,
    fallback: () => "2",
  },
  configDrainSeconds: {
    env: "CONFIG_DRAIN_SECONDS",
    doc: "how long a new configuration waits for running turns before it ends them",
    schema: seconds,
    fallback: () => "30",
  },
  agentUser: {
    env: "AGENT_USER",
    doc: "who OpenCode and its tools run as when the runner is root; `agent` if there is such a user",
    schema: z
      .string()
      .regex(/^[a-z_][a-z0-9_-]{0,31}$/, { error: "must be the name of a user" })
      .optional(),
  },
  agentEnvAllow: {
    env: "AGENT_ENV_ALLOW",
    doc: "further variables that the agent may see, separated by commas; never the runner's own",
    schema: nameList.optional(),
  },
  agentModels: {
    env: "AGENT_MODELS",
    doc: "the only models that may be used, separated by commas: provider/model or provider/*",
    schema: modelList.optional(),
  },
  agentBashSeconds: {
    env: "AGENT_BASH_SECONDS",
    doc: "how long a command of the agent may run when it names no limit itself",
    schema: seconds,
    fallback: () => "360",
  },
  opencodeConfigSource: {
    env: "OPENCODE_CONFIG_SOURCE",
    doc: "a directory with opencode.json, tools, skills that stands in for the ones inside this program",
    schema: directory,
    fallback: () => "/opencode-config",
  },
  model: {
    env: "SANDPIPER_MODEL",
    flag: "model",
    doc: "provider/model used when a prompt names none",
    schema: z
      .string()
      .regex(/^[^/\s]+\/\S+$/, {
        error: "must be provider/model, such as anthropic/claude-sonnet-4",
      })
      .optional(),
  },
  firstEventSeconds: {
    env: "TURN_FIRST_EVENT_SECONDS",
    doc: "a model that says nothing at all for this long is given up",
    schema: seconds,
    fallback: () => "90",
  },
  progressSeconds: {
    env: "TURN_PROGRESS_SECONDS",
    doc: "a turn in which nothing happens for this long, while no tool runs, is ended",
    schema: seconds,
    fallback: () => "300",
  },
  turnSeconds: {
    env: "TURN_LIMIT_SECONDS",
    doc: "no turn takes longer than this",
    schema: seconds,
    fallback: () => "7200",
  },
  whisperModels: {
    env: "WHISPER_MODELS",
    doc: "folder of whisper.cpp's models (ggml-*.bin), for voice messages",
    schema: directory,
    fallback: () => "/models/whisper",
  },
  secretsToken: {
    env: "OP_SERVICE_ACCOUNT_TOKEN",
    doc: "service account of 1Password (`op`), for the agent's secrets",
    schema: z.string().min(1, "must not be empty").optional(),
    secret: true,
  },
  secretsFile: {
    env: "SANDPIPER_SECRETS_FILE",
    doc: "JSON file of names and values, mode 600: the agent's secrets where there is no 1Password",
    schema: z.string().min(1, "must be a file").optional(),
  },
  runnerSecretsFile: {
    env: "RUNNER_SECRETS_FILE",
    doc: "file of NAME=value lines, mode 600: the runner's own secrets, read at the start and when the sandbox is restored",
    schema: z.string().min(1, "must be a file").optional(),
  },
  parallelApiKey: {
    env: "PARALLEL_API_KEY",
    doc: "key of Parallel's API; without it the agent has no parallel_* tools",
    schema: z.string().min(1, "must not be empty").optional(),
    secret: true,
  },
  parentSessionId: {
    env: "PARENT_SESSION_ID",
    doc: "the session that started this one, for the tool notify_parent",
    schema: z.string().min(1, "must not be empty").optional(),
  },
  publicUrl: {
    env: "SANDPIPER_PUBLIC_URL",
    doc: "address that people reach the gateway at, for the tool write_tunnel_env",
    schema: urlWith("must be an http:// or https:// URL", (url) =>
      /^https?:$/.test(url.protocol),
    ).optional(),
  },
  permissions: {
    env: "SANDPIPER_PERMISSIONS",
    doc: "what OpenCode asks leave for: `allow` it once each time, or `relay` the question to the session agent",
    schema: z.enum(["allow", "relay"], { error: "must be allow or relay" }),
    fallback: () => "allow",
  },
  hubPort: {
    env: "HUB_PORT",
    flag: "hub-port",
    doc: "loopback port of the session agent that `up` starts, 0 for any free one",
    schema: port,
    fallback: () => "0",
  },
  stopWithStdin: {
    env: "STOP_WITH_STDIN",
    doc: "1: the runner stops when its standard input ends, as a child of another process does",
    schema: z.enum(["0", "1"], { error: "must be 0 or 1" }).transform((value) => value === "1"),
    fallback: () => "0",
  },
  logLevel: {
    env: "LOG_LEVEL",
    flag: "log-level",
    doc: "debug, info, warn or error",
    schema: z.enum(["debug", "info", "warn", "error"], {
      error: "must be debug, info, warn or error",
    }),
    fallback: ({ command }) => (command === "up" ? "warn" : "info"),
  },
  logFormat: {
    env: "LOG_FORMAT",
    doc: "json, pretty, or auto: pretty on a terminal",
    schema: z.enum(["json", "pretty", "auto"], { error: "must be json, pretty or auto" }),
    fallback: () => "auto",
  },
} satisfies Record<string, Setting>

export type SettingValues = {
  readonly [Key in keyof typeof settingsTable]: z.output<(typeof settingsTable)[Key]["schema"]>
}

export const commands: Record<
  CommandName,
  { readonly doc: string; readonly operands?: readonly string[] }
> = {
  run: {
    doc: "the runner of a sandbox: gateway, OpenCode, and the link to the session agent (the default with flags)",
  },
  up: { doc: "everything on this machine: a session agent, a runner, and a chat in this terminal" },
  chat: {
    doc: "a prompt for a session of the running `up`, or a conversation when no text is given",
  },
  sessions: { doc: "the sessions of the running `up`" },
  doctor: { doc: "what is installed and what is in the way, a line each" },
  hook: {
    doc: "pre-snapshot: makes a running runner ready to be stored; post-snapshot: lets it go on",
    operands: ["pre-snapshot", "post-snapshot"],
  },
  workflow: {
    doc: "validate FILE; run FILE in the running runner; resume the file that a stopped run has printed",
    operands: ["validate", "run", "resume"],
  },
  "git-credential": {
    doc: "git's credential helper: asks the running runner",
    operands: ["get", "store", "erase"],
  },
  "read-pdf": { doc: "the text of the PDF on standard input, as JSON; the runner asks itself" },
}

export const settingRows: readonly (readonly [string, Setting])[] =
  Object.entries<Setting>(settingsTable)

/** What the runner itself is set by: none of it is for the agent's eyes, but for the screen it draws on. */
export const ownVariables: ReadonlySet<string> = new Set(
  settingRows.map(([, knob]) => knob.env).filter((name) => name !== settingsTable.display.env),
)

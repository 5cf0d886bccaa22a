/** Every command of the program: its line of help, and the arguments and flags that only this command takes. */

export type CommandName =
  | "run"
  | "up"
  | "serve"
  | "fleet"
  | "chat"
  | "link"
  | "sessions"
  | "key"
  | "forget"
  | "doctor"
  | "git-credential"
  | "key-broker"
  | "egress-proxy"
  | "end-orphans"
  | "read-pdf"
  | "sandbox-server"
  | "hook"
  | "workflow"
  | "files"
  | "services"
  | "env"
  | "actions"

/** Who calls a command; the help lists commands under these titles. */
export type CommandGroup = "On your machine" | "For a platform" | "In a sandbox" | "internal"

export interface CommandSyntax {
  readonly group: CommandGroup
  /** One line of at most 90 characters. */
  readonly doc: string
  /** The flags of settings that the command reads; its help lists them. Other commands accept them without effect. */
  readonly settings: readonly string[]
  /** Ways to call it, for its own help; made from the syntax if absent. */
  readonly usage?: readonly string[]
  /** The command requires one of these words as its first argument. */
  readonly operands?: readonly string[]
  /**
   * What may follow: a file, a directory, the working directory (optional), an API key's prefix, words that form a text,
   * or single words. Nothing if absent.
   */
  readonly argument?: "file" | "directory" | "work-dir" | "key" | "text" | "words" | "paths"
  /** Flags without a value. */
  readonly switches?: readonly string[]
  /** Flags with a value that are not settings. */
  readonly flags?: readonly string[]
  /** Further names for flags of settings; one letter is written with one dash. */
  readonly aliases?: Readonly<Record<string, string>>
}

const LOG = ["log-level"]
/** Settings of what the agent is and where it works. */
const AGENT = ["model", "base-url", "tools", "opencode-url"]
const RUNNER = ["work-dir", "state-dir", "session-id", "gateway-port", ...AGENT, ...LOG]
/** How a command finds the `up` that it talks to. */
const FIND_UP = ["work-dir", "state-dir"]
const GATEWAY = ["gateway-port"]

export const commands: Readonly<Record<CommandName, CommandSyntax>> = {
  up: {
    group: "On your machine",
    doc: "start a working agent and its page for a directory; needs no set-up",
    settings: [...RUNNER, "hub-port"],
    usage: [
      "up [DIR]            start here; prints a link to the page, or chats without a browser",
      "up --open           the same, and open the page in the browser",
      "up --chat           the same, with a chat in this terminal",
      "up --new            another session in the same directory",
    ],
    argument: "work-dir",
    switches: ["new", "chat", "open"],
  },
  chat: {
    group: "On your machine",
    doc: "send a prompt to a session of the running `up`; without text, a conversation",
    settings: ["session-id", "model", ...FIND_UP],
    argument: "text",
    switches: ["json"],
    aliases: { m: "model", session: "session-id" },
  },
  link: {
    group: "On your machine",
    doc: "print another login link for the page of the running `up`; valid once, for 10 minutes",
    settings: FIND_UP,
  },
  sessions: {
    group: "On your machine",
    doc: "list every directory in which `up` has worked, and its sessions",
    settings: ["state-dir"],
  },
  forget: {
    group: "On your machine",
    doc: "delete the sessions of DIR and what `up` has stored for it; the files in DIR stay",
    settings: ["state-dir"],
    argument: "directory",
  },
  doctor: {
    group: "On your machine",
    doc: "check this machine: programs, directories, ports, clock, model; one line each",
    settings: [...RUNNER, "hub-port"],
  },
  serve: {
    group: "For a platform",
    doc: "a session agent for many sessions; a prompt starts or wakes its session's sandbox",
    settings: ["provider", "hub-port", ...FIND_UP, ...AGENT, ...LOG],
  },
  fleet: {
    group: "For a platform",
    doc: "the sandboxes of the running `serve`: ls, show, sweep, forget, base-snapshot",
    settings: ["state-dir"],
    usage: [
      "fleet ls [--json]               all sessions and the state of their sandboxes",
      "fleet show SESSION [--json]     one session and the sandboxes that it has had",
      "fleet sweep [--dry-run]         end sandboxes that belong to no session",
      "fleet forget SESSION            delete the record of a session; the sweep ends its sandbox",
      "fleet base-snapshot [--again]   make the snapshot that new sandboxes of this version begin with",
    ],
    operands: ["ls", "show", "sweep", "forget", "base-snapshot"],
    argument: "text",
    switches: ["json", "dry-run", "again"],
  },
  key: {
    group: "For a platform",
    doc: "API keys of an owner in the running `up`: create, list, revoke, rotate",
    settings: FIND_UP,
    usage: [
      'key create --owner user:NAME --scope "sessions:write" [--name TEXT] [--days N]',
      "key list [--owner O]",
      "key revoke PREFIX [--owner O]",
      "key rotate                      encrypt the stored configs with a new key",
    ],
    operands: ["create", "list", "revoke", "rotate"],
    argument: "key",
    flags: ["owner", "scope", "name", "days"],
  },
  run: {
    group: "In a sandbox",
    doc: "the runner: gateway, OpenCode, link to the session agent (default if flags are given)",
    settings: ["do-url", "runner-token", ...RUNNER],
  },
  hook: {
    group: "In a sandbox",
    doc: "pre-snapshot: prepare the running runner for a snapshot; post-snapshot: resume it",
    settings: FIND_UP,
    operands: ["pre-snapshot", "post-snapshot"],
  },
  files: {
    group: "In a sandbox",
    doc: "ls, cat, put, get, rm, mv, edit, save: files of the workspace, as the agent's user",
    settings: GATEWAY,
    usage: [
      "files ls [PATH] | cat PATH | put LOCAL PATH | get PATH LOCAL",
      "files mv FROM TO [--overwrite] | rm PATH [--recursive]",
      "files edit PATH --old TEXT --new TEXT [--all]",
      "files save",
    ],
    operands: ["ls", "cat", "put", "get", "rm", "mv", "edit", "save"],
    argument: "paths",
    switches: ["json", "recursive", "overwrite", "all"],
    flags: ["old", "new"],
  },
  services: {
    group: "In a sandbox",
    doc: "programs that are restarted after a crash: start, list, stop, restart, logs, expose",
    settings: GATEWAY,
    usage: [
      "services start web --port 3000 -- npm run dev",
      "services list [--json]",
      "services logs NAME [--follow]",
      "services stop NAME | restart NAME",
      "services expose PORT",
    ],
    operands: ["list", "start", "stop", "restart", "logs", "expose"],
    argument: "words",
    switches: ["json", "follow"],
    flags: ["cwd", "port"],
  },
  env: {
    group: "In a sandbox",
    doc: "apply FILE writes the env files that it lists, scrub removes them",
    settings: GATEWAY,
    operands: ["apply", "scrub"],
    argument: "words",
    switches: ["json"],
  },
  actions: {
    group: "In a sandbox",
    doc: "list the operations of the gateway, or run NAME [JSON]",
    settings: GATEWAY,
    operands: ["list", "run"],
    argument: "words",
    switches: ["json"],
  },
  workflow: {
    group: "In a sandbox",
    doc: "validate FILE; run FILE; resume FILE, the output of a run that waits for approval",
    settings: FIND_UP,
    operands: ["validate", "run", "resume"],
    argument: "file",
    switches: ["deny"],
    flags: ["variables"],
  },
  "git-credential": {
    group: "internal",
    doc: "git's credential helper (git calls it): asks the running runner for a token",
    settings: ["state-dir"],
    operands: ["get", "store", "erase"],
  },
  "key-broker": {
    group: "internal",
    doc: "add provider keys to the agent's model calls (the runner calls it)",
    settings: LOG,
  },
  "egress-proxy": {
    group: "internal",
    doc: "the only way to the network for a sandbox with a network policy (`serve` calls it)",
    settings: LOG,
  },
  "end-orphans": {
    group: "internal",
    doc: "end what a killed runner or a `serve` has left running (its watchdog calls it)",
    settings: ["state-dir", ...LOG],
    operands: ["runner", "sandboxes"],
  },
  "read-pdf": {
    group: "internal",
    doc: "print the text of the PDF on standard input as JSON (the runner calls it)",
    settings: [],
  },
  "sandbox-server": {
    group: "internal",
    doc: "serve files and programs of the workspace to the gateway (the runner calls it)",
    settings: [],
  },
}

export const isCommand = (name: string): name is CommandName => Object.hasOwn(commands, name)

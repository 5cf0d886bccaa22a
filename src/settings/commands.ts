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
  | "read-pdf"
  | "sandbox-server"
  | "hook"
  | "workflow"
  | "files"
  | "services"
  | "env"
  | "actions"

export interface CommandSyntax {
  readonly doc: string
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

export const commands: Readonly<Record<CommandName, CommandSyntax>> = {
  run: {
    doc: "the runner of a sandbox: gateway, OpenCode, and the link to the session agent (default if flags are given)",
  },
  up: {
    doc: "everything on this machine: a session agent, a runner, and a page in the browser; a chat in this terminal with --chat or without a browser",
    argument: "work-dir",
    switches: ["new", "chat", "open"],
  },
  serve: {
    doc: "a session agent with sandboxes for many sessions: each prompt starts or wakes the sandbox of its session",
  },
  fleet: {
    doc: "ls, show SESSION, sweep, forget SESSION: the sandboxes of the running `serve`",
    operands: ["ls", "show", "sweep", "forget"],
    argument: "text",
    switches: ["json", "dry-run"],
  },
  chat: {
    doc: "send a prompt to a session of the running `up`; without text, a conversation",
    argument: "text",
    switches: ["json"],
    aliases: { m: "model", session: "session-id" },
  },
  link: {
    doc: "print another login link for the page of the running `up`; valid once, for 10 minutes",
  },
  key: {
    doc: "create, list, revoke: API keys of an owner in the running `up`; rotate: encrypt the stored configs with a new key",
    operands: ["create", "list", "revoke", "rotate"],
    argument: "key",
    flags: ["owner", "scope", "name", "days"],
  },
  sessions: { doc: "list every directory in which `up` has worked, and its sessions" },
  forget: {
    doc: "delete the sessions of DIR and what `up` has stored for it; the files in DIR stay",
    argument: "directory",
  },
  doctor: { doc: "check this machine: programs, directories, ports, clock, model; one line each" },
  hook: {
    doc: "pre-snapshot: prepare the running runner for a snapshot; post-snapshot: resume it",
    operands: ["pre-snapshot", "post-snapshot"],
  },
  workflow: {
    doc: "validate FILE; run FILE in the running runner; resume FILE, the output of a run that waits for approval",
    operands: ["validate", "run", "resume"],
    argument: "file",
    switches: ["deny"],
    flags: ["variables"],
  },
  files: {
    doc: "ls, cat, put, get, rm, mv, edit, save: files of the workspace over the gateway, as the agent's user",
    operands: ["ls", "cat", "put", "get", "rm", "mv", "edit"],
    argument: "paths",
    switches: ["json", "recursive", "overwrite", "all"],
    flags: ["old", "new"],
  },
  services: {
    doc: "in a sandbox: list, start NAME -- COMMAND, stop NAME, restart NAME, logs NAME, expose PORT",
    operands: ["list", "start", "stop", "restart", "logs", "expose"],
    argument: "words",
    switches: ["json", "follow"],
    flags: ["cwd", "port"],
  },
  env: {
    doc: "in a sandbox: apply FILE writes the env files that it lists, scrub removes them",
    operands: ["apply", "scrub"],
    argument: "words",
    switches: ["json"],
  },
  actions: {
    doc: "in a sandbox: list the operations of the gateway, or run NAME [JSON]",
    operands: ["list", "run"],
    argument: "words",
    switches: ["json"],
  },
  "git-credential": {
    doc: "git's credential helper (git calls it): asks the running runner for a token",
    operands: ["get", "store", "erase"],
  },
  "key-broker": {
    doc: "add provider keys to the agent's model calls (the runner calls it)",
  },
  "read-pdf": {
    doc: "print the text of the PDF on standard input as JSON (the runner calls it)",
  },
  "sandbox-server": {
    doc: "serve files and programs of the workspace to the gateway (the runner calls it)",
  },
}

export const isCommand = (name: string): name is CommandName => Object.hasOwn(commands, name)

/** What the launcher needs of the machine; the daemon gives it what `host` has. */

export interface ProcessIdentity {
  readonly pid: number
  readonly startTime: number
}

interface ProcessRow extends ProcessIdentity {
  readonly parent: number
  readonly isZombie: boolean
}

export interface Processes {
  readonly find: (pid: number) => ProcessIdentity | undefined
  readonly isAlive: (identity: ProcessIdentity) => boolean
  readonly descendants: (pid: number) => readonly ProcessRow[]
  readonly carriers: (variable: string, value: string) => readonly ProcessRow[]
  readonly listensOn: (pid: number, port: number) => boolean
  /** Whoever holds the port, with the command it was started by. */
  readonly listener: (
    port: number,
  ) => { readonly pid: number; readonly command: string } | undefined
  readonly signal: (identity: ProcessIdentity, signal: "SIGTERM" | "SIGKILL") => void
  readonly waitForEnd: (identity: ProcessIdentity, ms: number) => Promise<boolean>
  readonly endAll: (find: () => readonly ProcessRow[]) => Promise<number>
}

/** The user that OpenCode runs as when the runner may choose one. */
export interface AgentUser {
  readonly name: string
  readonly uid: number
  readonly gid: number
  readonly home: string
}

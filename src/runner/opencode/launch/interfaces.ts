/** What the launcher needs from the operating system; the daemon passes in the implementation from `host`. */

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
  /** Processes whose environment has the variable with this value. */
  readonly carriers: (variable: string, value: string) => readonly ProcessRow[]
  readonly listensOn: (pid: number, port: number) => boolean
  /** The process that listens on the port. */
  readonly listener: (
    port: number,
  ) => { readonly pid: number; readonly command: string } | undefined
  readonly signal: (identity: ProcessIdentity, signal: "SIGTERM" | "SIGKILL") => void
  readonly waitForEnd: (identity: ProcessIdentity, ms: number) => Promise<boolean>
  /** Kills what `find` returns until it returns nothing; resolves with the number of processes. */
  readonly endAll: (find: () => readonly ProcessRow[]) => Promise<number>
}

/** The user that OpenCode runs as; only a runner that is root can choose one. */
export interface AgentUser {
  readonly name: string
  readonly uid: number
  readonly gid: number
  readonly home: string
}

/** What is open: every path the gateway answers is a row here, and all else does not exist. */

export interface Route {
  readonly path: string
  /** Who may call it. */
  readonly access: "open"
  readonly doc: string
}

export const routes: readonly Route[] = [
  {
    path: "/health",
    access: "open",
    doc: "the process is up; says nothing else, to nobody in particular",
  },
]

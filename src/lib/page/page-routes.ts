/** The route table of the page's host. Anything else is 404 there; the rows of the sandbox are on other hosts. */

/** `open`: anyone. `login`: a browser that has logged in, by its cookie and its key together. */
export type PageAccess = "open" | "login"

interface PageRow {
  readonly name: string
  /** `/*` at the end matches everything below, `/:file` an icon or a manifest. The first matching row counts. */
  readonly path: string
  readonly access: PageAccess
  readonly methods: readonly string[]
  /** Only a script of the page itself may call it: another site is refused before the login is checked. */
  readonly sameOrigin: boolean
  readonly doc: string
}

const READ = ["GET", "HEAD"] as const

export const pageRoutes = [
  {
    name: "page",
    path: "/",
    access: "open",
    methods: READ,
    sameOrigin: false,
    doc: "the page",
  },
  {
    name: "conversation",
    path: "/c/*",
    access: "open",
    methods: READ,
    sameOrigin: false,
    doc: "the page, at a conversation",
  },
  {
    name: "page-asset",
    path: "/assets/*",
    access: "open",
    methods: READ,
    sameOrigin: false,
    doc: "scripts and styles of the page; their names contain a hash",
  },
  {
    name: "page-file",
    path: "/:file",
    access: "open",
    methods: READ,
    sameOrigin: false,
    doc: "the page's icons and its manifest",
  },
  {
    name: "login",
    path: "/login",
    access: "open",
    methods: ["GET", "POST"],
    sameOrigin: true,
    doc: "POST exchanges the code of a login link, or a token, for a cookie and a key; GET says whether tokens are accepted",
  },
  {
    name: "logout",
    path: "/hub/logout",
    access: "login",
    methods: ["POST"],
    sameOrigin: true,
    doc: "ends every login of the page, and every session with the sandbox",
  },
  {
    name: "hub",
    path: "/hub/*",
    access: "login",
    methods: ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"],
    sameOrigin: true,
    doc: "the session agent's API; the gateway adds the token",
  },
] as const satisfies readonly PageRow[]

export type PageRoute = (typeof pageRoutes)[number]
export type PageRouteName = PageRoute["name"]

const FILE = /^\/[a-z0-9-]{1,64}\.(?:svg|png|webmanifest)$/

const matches = (row: PageRoute, path: string): boolean => {
  if (row.path === "/:file") return FILE.test(path)
  return row.path.endsWith("/*") ? path.startsWith(row.path.slice(0, -1)) : path === row.path
}

export const findPageRoute = (path: string): PageRoute | undefined =>
  pageRoutes.find((row) => matches(row, path))

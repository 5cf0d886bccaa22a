/** The table of the fleet's HTTP API, between two markers of docs/deploy.md. */
import { fleetRoutes } from "../../src/fleet/core/routes.ts"

const START = "<!-- Generated from src/fleet/core/routes.ts by docs/build.ts -->"
const END = "<!-- End of the generated table -->"

const who = {
  open: "everybody",
  read: "who may read the session",
  change: "owner of the session",
  service: "operator, or a person for itself",
  observe: "operator, or a token with the scope `metrics`",
  admin: "operator",
} as const

const table = (): string =>
  [
    "| route | who | what |",
    "|---|---|---|",
    ...Object.values(fleetRoutes).map(
      ({ method, path, access, doc }) => `| \`${method} ${path}\` | ${who[access]} | ${doc} |`,
    ),
  ].join("\n")

/** The rest of the document is written by hand. */
export const withFleetRoutes = (text: string): string => {
  const [start, end] = [text.indexOf(START), text.indexOf(END)]
  if (start === -1 || end < start) throw new Error(`docs/deploy.md has no lines ${START}, ${END}`)
  return `${text.slice(0, start)}${START}\n\n${table()}\n\n${text.slice(end)}`
}

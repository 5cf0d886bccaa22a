/** Renders the access table as Markdown for `docs/clients.md`. */
import type { PrincipalKind } from "./principal.ts"
import { scopes } from "./scopes.ts"
import { accessTable, actions, type Rule } from "./table.ts"

const sections = [
  { title: "Routes", prefix: "route:" },
  { title: "Verbs", prefix: "verb:" },
  { title: "Events", prefix: "event:" },
  { title: "Requests of a runner", prefix: "request:" },
  { title: "Calls of the fleet's API", prefix: "fleet:" },
] as const

const kindNames: Readonly<Record<PrincipalKind, string>> = {
  operator: "operator",
  person: "person",
  runner: "runner",
  "share-link": "share link",
}

export const renderAccessTable = (): string =>
  [
    "| scope | allows |",
    "|---|---|",
    ...scopes.map(({ name, doc }) => `| \`${name}\` | ${doc} |`),
    ...sections.flatMap(({ title, prefix }) => [
      "",
      `### ${title}`,
      "",
      "| name | about | role | scope | who |",
      "|---|---|---|---|---|",
      ...actions
        .filter((action) => action.startsWith(prefix))
        .map((action) => lineOf(action.slice(prefix.length), accessTable[action])),
    ]),
    "",
  ].join("\n")

const lineOf = (name: string, rule: Rule): string => {
  const start = `| \`${name}\` | ${rule.doc} |`
  if (rule.guard === "open") return `${start} - | - | everybody |`
  if (rule.guard === "hook-secret") return `${start} - | - | the trigger's secret |`
  const role = rule.on === "owner" ? `${rule.role} (owner-wide)` : rule.role
  const who = rule.kinds.map((kind) => kindNames[kind]).join(", ")
  return `${start} ${role} | \`${rule.scope}\` | ${who} |`
}

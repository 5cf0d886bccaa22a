/** A stand-in for `gh api` with gh's config files, messages and exit codes, for machines without gh. */
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"

const folder = process.env["GH_CONFIG_DIR"] ?? ""
const read = (file: string, key: string) =>
  existsSync(join(folder, file))
    ? new RegExp(`${key}: (.*)`).exec(readFileSync(join(folder, file), "utf8"))?.[1]
    : undefined

const [command, flag, method = "GET", path = "", ...rest] = process.argv.slice(2)
if (command !== "api" || flag !== "-X") {
  process.stderr.write(`unknown command ${command} ${flag}\n`)
  process.exit(1)
}
const token = read("hosts.yml", "oauth_token")
if (token === undefined) {
  process.stderr.write("To get started with GitHub CLI, please run:  gh auth login\n")
  process.exit(4)
}
const answer = await fetch(`http://api.github.com/${path}`, {
  unix: read("config.yml", "http_unix_socket") ?? "",
  method,
  headers: { Authorization: `token ${token}` },
  ...(rest.join(" ") === "--input -" && { body: await Bun.stdin.text() }),
})
process.stdout.write(await answer.clone().text())
if (!answer.ok) {
  const { message } = (await answer.json()) as { message: string }
  process.stderr.write(`gh: ${message} (HTTP ${answer.status})\n`)
  process.exit(1)
}

/** The real GitHub CLI as a second client of the local GitHub: it connects through a Unix socket. */
import { mkdir, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { execa } from "execa"
import { GITHUB_TOKEN } from "../../kit/github-api.ts"
import type { House } from "./house.ts"

/** What `gh api PATH` prints, as a value. */
export const readWithGh = async ({ sandbox, github }: House, path: string): Promise<unknown> => {
  const folder = join(sandbox.root, "gh")
  await mkdir(folder, { recursive: true })
  await writeFile(join(folder, "config.yml"), `http_unix_socket: ${github.socket}\n`)
  const { stdout } = await execa("gh", ["api", path], {
    env: { GH_CONFIG_DIR: folder, GH_TOKEN: GITHUB_TOKEN, GH_NO_UPDATE_NOTIFIER: "1" },
  })
  return JSON.parse(stdout)
}

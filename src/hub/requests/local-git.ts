/** The git host as this machine reaches it: with a token, or through `gh` when somebody is signed in there. */
import { execa } from "execa"
import { githubApi, type GitHostOptions, NO_GIT_HOST } from "./git-host.ts"
import { Refusal } from "./table.ts"

export interface LocalGitOptions {
  /** Where a session's checkout is. */
  readonly workDir: (session: string) => string
  readonly environment: Readonly<Record<string, string | undefined>>
}

const LIMIT_MS = 25_000

export const localGit = ({ workDir, environment }: LocalGitOptions): GitHostOptions => {
  const token = environment["GITHUB_TOKEN"] || environment["GH_TOKEN"]
  const apiUrl = environment["GITHUB_API_URL"] || "https://api.github.com"
  const gh = Bun.which("gh", { PATH: environment["PATH"] ?? "" })
  return {
    call: token
      ? githubApi(apiUrl, token)
      : gh
        ? callGh(gh)
        : () => Promise.reject(new Refusal(NO_GIT_HOST)),
    origin: async (session) => {
      const { stdout } = await execa("git", ["remote", "get-url", "origin"], {
        cwd: workDir(session),
        reject: false,
      })
      return stdout === undefined || stdout === "" ? undefined : stdout
    },
  }
}

const callGh =
  (gh: string): GitHostOptions["call"] =>
  async (method, path, body) => {
    const args = ["api", "-X", method, path.slice(1), ...(body ? ["--input", "-"] : [])]
    const { exitCode, stdout, stderr } = await execa(gh, args, {
      ...(body && { input: JSON.stringify(body) }),
      reject: false,
      timeout: LIMIT_MS,
    })
    if (exitCode !== 0) throw new Refusal(`gh: ${stderr.trim().slice(-300)}`)
    return stdout === "" ? {} : (JSON.parse(stdout) as unknown)
  }

/** The git host as this machine reaches it: with a token, or through `gh` when it is signed in. */
import { parseJson } from "../../../lib/json.ts"
import { runCommand } from "../../../lib/run-command.ts"
import { answeredWith, type CallGitHost, githubApi, record } from "../../handlers/git-api.ts"
import { type GitHostOptions, NO_GIT_HOST } from "../../handlers/git-host.ts"
import { githubAppOf } from "../../handlers/github-app.ts"
import { gitTokenOf, NO_TOKEN_OF_OWNER } from "../../handlers/git-tokens.ts"
import { Refusal } from "../../handlers/handler-table.ts"
import { LOCAL_OWNER, type Owner } from "../../access/ownership.ts"

export interface LocalGitOptions {
  readonly showPull: GitHostOptions["showPull"]
  /** The owner of the sessions that call it. */
  readonly owner: Owner
  /** The directory of a session's checkout; `undefined` if it is not on this machine. */
  readonly workDir: (session: string) => string | undefined
  readonly environment: Readonly<Record<string, string | undefined>>
}

/** True if a call to the git host can succeed: there is a token, or `gh`. */
export const hasGitHost = (environment: LocalGitOptions["environment"]): boolean =>
  Boolean(environment["GITHUB_TOKEN"] || environment["GH_TOKEN"]) ||
  Bun.which("gh", { PATH: environment["PATH"] ?? "" }) !== null

const LIMIT_MS = 25_000
/** Characters of a response; `gh` returns whole files in one. */
const MAX_RESPONSE = 64 * 1024 * 1024

export const localGit = ({
  owner,
  workDir,
  environment,
  showPull,
}: LocalGitOptions): GitHostOptions => {
  const token = gitTokenOf(environment, owner)
  const apiUrl = environment["GITHUB_API_URL"] || "https://api.github.com"
  const gh = Bun.which("gh", { PATH: environment["PATH"] ?? "" })
  return {
    showPull,
    call: token
      ? githubApi(apiUrl, token)
      : owner !== LOCAL_OWNER
        ? () => Promise.reject(new Refusal(NO_TOKEN_OF_OWNER))
        : gh
          ? callGh(gh, environment)
          : () => Promise.reject(new Refusal(NO_GIT_HOST)),
    issueToken: githubAppOf(environment, owner, Date.now),
    origin: async (session) => {
      const cwd = workDir(session)
      if (cwd === undefined) return undefined
      const { stdout } = await runCommand("git", ["remote", "get-url", "origin"], {
        cwd,
        env: environment,
        timeoutMs: LIMIT_MS,
      }).catch(() => ({ stdout: "" }))
      return stdout.trim() || undefined
    },
  }
}

/** The exit code of `gh` when it is not signed in. */
const NOT_SIGNED_IN = 4

/** Calls the API through `gh`, which keeps the token to itself: it is never an argument or part of an error. */
const callGh =
  (gh: string, environment: LocalGitOptions["environment"]): CallGitHost =>
  async (method, path, body) => {
    const args = ["api", "-X", method, path.slice(1), ...(body ? ["--input", "-"] : [])]
    const { exitCode, stdout, stderr, timedOut } = await runCommand(gh, args, {
      ...(body && { input: JSON.stringify(body) }),
      maxOutput: MAX_RESPONSE,
      env: { ...environment, GH_PROMPT_DISABLED: "1", GH_NO_UPDATE_NOTIFIER: "1", NO_COLOR: "1" },
      timeoutMs: LIMIT_MS,
    })
    if (exitCode === 0) return stdout.trim() === "" ? {} : (JSON.parse(stdout) as unknown)
    if (timedOut) throw new Refusal(`gh timed out after ${LIMIT_MS / 1000} s`)
    if (exitCode === NOT_SIGNED_IN) {
      throw new Refusal(
        "gh is installed but not signed in: run `gh auth login`, or set GITHUB_TOKEN",
      )
    }
    const [, message, status] = /^gh: (.*) \(HTTP (\d+)\)$/m.exec(stderr) ?? []
    if (status === undefined) throw new Refusal(`gh: ${stderr.trim().slice(-300)}`)
    // The answer itself is in stdout, and its errors say more than the message.
    throw answeredWith(Number(status), { message, ...record(parseJson(stdout)) })
  }

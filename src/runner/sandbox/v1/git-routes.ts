/** The handlers of `/api/git`: repositories of the workspace, their status, changes, commits and branches. Read only. */
import { readAtMost } from "../../../lib/untrusted-files.ts"
import { capPatch, MAX_PATCH, parseStatus, type StatusFile } from "../git-status.ts"
import type { Client } from "./client.ts"
import type { Handler } from "./file-routes.ts"
import type { Files } from "./files.ts"
import { findRepositories, inRepository, pathOfId, type RunGit } from "./git-repository.ts"
import { namesBelow } from "./paths.ts"
import { invalid } from "./problem.ts"

/** The tree without files: what everything is compared with before the first commit. */
const EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
const MOST_FILES = 300
const MOST_COMMITS = 200
const STATUS = ["status", "--porcelain=v2", "--branch", "--ignore-submodules=all", "-z"]
const DIFF = [
  "diff",
  "--no-color",
  "--no-ext-diff",
  "--no-textconv",
  "--no-renames",
  "--ignore-submodules=all",
]
const FIELD = "\u001F"

export const gitRoutes = (
  files: Files,
  environment: Readonly<Record<string, string>>,
): Readonly<Record<string, Handler>> => {
  const inAsked = <Result>(client: Client, use: (git: RunGit, path: string) => Promise<Result>) => {
    const path = pathOfId(client.query("repo"))
    return inRepository(files, path, environment, (git) => use(git, path))
  }

  const patchOf = (
    git: RunGit,
    repository: string,
    head: string | undefined,
    { path, isTracked }: StatusFile,
  ): Promise<string> =>
    isTracked
      ? git([...DIFF, head ?? EMPTY_TREE, "--", `:(top,literal)${path}`])
      : patchOfNew(files, `${repository}/${path}`, path)

  return {
    "GET /api/git/repos": async (client) =>
      client.sendJson({ repos: await findRepositories(files) }),
    "GET /api/git/status": async (client) =>
      client.sendJson(
        await inAsked(client, async (git) => {
          const {
            branch,
            ahead,
            behind,
            head,
            files: changed,
          } = parseStatus(await git([...STATUS, "--untracked-files=all"]))
          return {
            branch: branch ?? null,
            head: head ?? null,
            ahead: ahead ?? 0,
            behind: behind ?? 0,
            files: changed,
          }
        }),
      ),
    "GET /api/git/diff": async (client) =>
      client.sendJson(
        await inAsked(client, async (git, repository) => {
          const asked = client.query("path")
          // Relative to the repository; refuses what leads out of it.
          const path = asked === undefined ? undefined : namesBelow("/", asked).join("/")
          const { head, files: changed } = parseStatus(
            await git([...STATUS, "--untracked-files=all"]),
          )
          const wanted = changed.filter((file) => path === undefined || file.path === path)
          const shown = []
          let diff = ""
          let left = MAX_PATCH
          for (const file of wanted.slice(0, MOST_FILES)) {
            // Nothing of a file after the limit is shown: it is named only.
            const patch = left > 0 ? await patchOf(git, repository, head, file) : undefined
            diff += capPatch(patch ?? "", left)
            shown.push({
              path: file.path,
              truncated: patch === undefined || patch.length > left,
            })
            left = Math.max(0, left - (patch?.length ?? 0))
          }
          return {
            diff,
            truncated: wanted.length > MOST_FILES || shown.some(({ truncated }) => truncated),
            files: shown,
          }
        }),
      ),
    "GET /api/git/log": async (client) =>
      client.sendJson(
        await inAsked(client, async (git) => {
          const limit = limitOf(client.query("limit"))
          const { head } = parseStatus(await git([...STATUS, "--untracked-files=no"]))
          if (head === undefined) return { commits: [] }
          const format = ["%H", "%an", "%ae", "%cI", "%s"].join("%x1f")
          const text = await git(["log", "-z", `--format=${format}`, "-n", String(limit), head])
          return { commits: text.split("\0").filter(Boolean).map(commitOf) }
        }),
      ),
    "GET /api/git/branches": async (client) =>
      client.sendJson(
        await inAsked(client, async (git) => {
          const format = ["refname", "objectname", "HEAD", "upstream:short"]
            .map((field) => `%(${field})`)
            .join("%1f")
          const text = await git([
            "for-each-ref",
            `--format=${format}`,
            "refs/heads",
            "refs/remotes",
          ])
          const branches = text.split("\n").filter(Boolean).map(branchOf)
          return { current: branches.find(({ isCurrent }) => isCurrent)?.name ?? null, branches }
        }),
      ),
  }
}

const limitOf = (text: string | undefined): number => {
  if (text === undefined) return 50
  const limit = Number(text)
  if (!Number.isInteger(limit) || limit < 1 || limit > MOST_COMMITS) {
    throw invalid(`the parameter limit must be a number from 1 to ${MOST_COMMITS}`)
  }
  return limit
}

const commitOf = (record: string) => {
  const [hash = "", author = "", email = "", at = "", subject = ""] = record.split(FIELD)
  return { hash, author, email, at, subject }
}

const branchOf = (line: string) => {
  const [ref = "", hash = "", mark = "", upstream = ""] = line.split(FIELD)
  const isRemote = ref.startsWith("refs/remotes/")
  const name = ref.replace(/^refs\/(?:heads|remotes)\//, "")
  return { name, hash, isCurrent: mark === "*", isRemote, ...(upstream !== "" && { upstream }) }
}

/** The patch of an untracked file. The file is opened as any file of the workspace: git would follow links. */
const patchOfNew = async (files: Files, path: string, name: string): Promise<string> => {
  const head = `diff --git a/${name} b/${name}\nnew file\n--- /dev/null\n+++ b/${name}\n`
  const opened = await files.openForReading(path).catch(() => undefined)
  if (opened === undefined) return `${head}[the file is not readable as a regular file]\n`
  try {
    if (opened.size > MAX_PATCH * 16) return `${head}[the file has ${opened.size} bytes]\n`
    const bytes = await readAtMost(opened.file, opened.size)
    if (bytes.includes(0)) return `${head}Binary file b/${name} differs\n`
    const lines = bytes.toString("utf8").split("\n")
    const isClosed = lines.at(-1) === ""
    if (isClosed) lines.pop()
    const text = lines.map((line) => `+${line}\n`).join("")
    const end = isClosed || lines.length === 0 ? "" : "\\ No newline at end of file\n"
    return `${head}@@ -0,0 +1,${lines.length} @@\n${text}${end}`
  } finally {
    await opened.file.close()
  }
}

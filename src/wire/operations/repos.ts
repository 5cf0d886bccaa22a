/** Repositories: the list, single files, and the git state of this session's checkout. */
import { z } from "zod"
import { frameOperation, unchanged, sessionOperation, wireRequest } from "./define.ts"
import { entity, ok, text, wholeNumber } from "./fields.ts"
import { renderList } from "./render.ts"

const listRepos = wireRequest(
  "list-repos",
  15_000,
  { source: z.string().optional() },
  { repos: z.array(entity) },
)

const readRepoFile = wireRequest(
  "read-repo-file",
  15_000,
  {
    owner: z.string().optional(),
    repo: z.string().optional(),
    repoUrl: z.string().optional(),
    /** Filled in by the runner: owner/name of the sandbox's checkout. */
    checkout: z.string().optional(),
    path: z.string(),
    ref: z.string().optional(),
  },
  {
    content: z.string(),
    encoding: z.string().optional(),
    truncated: z.boolean().optional(),
    path: z.string().optional(),
    repo: z.string().optional(),
    ref: z.string().optional(),
  },
)

export const requests = [listRepos, readRepoFile] as const

export const operations = [
  sessionOperation({
    name: "list-repos",
    method: "GET",
    path: "/api/org-repos",
    doc: "List the repositories that the session's user can work on.",
    tools: [
      {
        name: "list_repos",
        description: "List the repositories that the user can work on.",
        render: ({ repos }) => renderList(repos, "repository", "repositories"),
      },
    ],
    input: z.object({
      source: text("Only repositories of this source, such as github").optional(),
    }),
    output: listRepos.result,
    request: listRepos,
    toFields: unchanged,
    toReply: unchanged,
  }),
  sessionOperation({
    name: "read-repo-file",
    method: "POST",
    path: "/api/read-repo-file",
    doc: "Read a file of a repository without cloning it.",
    tools: [
      {
        name: "read_repo_file",
        description:
          "Read a file of a repository that is not checked out here. Give owner and repo, or repoUrl.",
        render: (file) => (file.truncated ? `${file.content}\n[truncated]` : file.content),
      },
    ],
    input: z.object({
      owner: text("Repository owner").optional(),
      repo: text("Repository name").optional(),
      repoUrl: text("Repository URL, instead of owner and repo").optional(),
      path: text("Path in the repository"),
      ref: text("Branch, tag or commit; default: the default branch").optional(),
    }),
    output: readRepoFile.result,
    request: readRepoFile,
    toFields: unchanged,
    toReply: unchanged,
  }),
  frameOperation({
    name: "report-git-state",
    method: "POST",
    path: "/api/git-state",
    doc: "Report the checked-out branch and its number of commits.",
    tools: [
      {
        name: "report_git_state",
        description: "Report the checked-out branch and its number of commits to the session.",
        render: () => "Git state reported.",
      },
    ],
    input: z.object({
      branch: text("Checked-out branch").optional(),
      base_branch: text("Branch it was created from").optional(),
      commit_count: wholeNumber("Commits on top of base_branch", { min: 0 }).optional(),
    }),
    output: ok,
    frame: "git-state",
    toFields: ({ branch, base_branch, commit_count }) => ({
      branch,
      baseBranch: base_branch,
      commitCount: commit_count,
    }),
    reply: { ok: true },
  }),
] as const

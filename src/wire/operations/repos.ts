/** Repositories: which there are, what their files say, where this session's checkout stands. */
import { z } from "zod"
import { frameOperation, same, sessionOperation, wireRequest } from "./define.ts"
import { entity, ok, text, wholeNumber } from "./fields.ts"
import { listed } from "./render.ts"

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
        render: ({ repos }) => listed(repos, "repository", "repositories"),
      },
    ],
    input: z.object({ source: text("Only repositories from this source").optional() }),
    output: listRepos.result,
    request: listRepos,
    toFields: same,
    toReply: same,
  }),
  sessionOperation({
    name: "read-repo-file",
    method: "POST",
    path: "/api/read-repo-file",
    doc: "Read one file of a repository without cloning it.",
    tools: [
      {
        name: "read_repo_file",
        description:
          "Read one file of a repository that is not checked out here. Name the repository by owner and repo, or by repoUrl.",
        render: (file) =>
          file.truncated ? `${file.content}\n[cut here: the file is longer]` : file.content,
      },
    ],
    input: z.object({
      owner: text("Owner of the repository").optional(),
      repo: text("Name of the repository").optional(),
      repoUrl: text("Address of the repository, in place of owner and name").optional(),
      path: text("Path of the file in the repository"),
      ref: text("Branch, tag or commit; the default branch when absent").optional(),
    }),
    output: readRepoFile.result,
    request: readRepoFile,
    toFields: same,
    toReply: same,
  }),
  frameOperation({
    name: "report-git-state",
    method: "POST",
    path: "/api/git-state",
    doc: "Tell the session which branch is checked out and how far it is ahead.",
    tools: [
      {
        name: "report_git_state",
        description:
          "Tell the session which branch is checked out and how many commits it has. Call it after you have changed branches or committed.",
        render: () => "The state of the branch is reported.",
      },
    ],
    input: z.object({
      branch: text("The branch that is checked out").optional(),
      base_branch: text("The branch it was made from").optional(),
      commit_count: wholeNumber("How many commits it has on top of that", { min: 0 }).optional(),
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

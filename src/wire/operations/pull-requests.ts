/** Pull requests of the session's repository, or of another repository that the user can read. */
import { z } from "zod"
import { unchanged, sessionOperation, wireRequest } from "./define.ts"
import {
  entity,
  oneOf,
  prose,
  queryNumber,
  text,
  texts,
  bothOrNeither,
  wholeNumber,
} from "./fields.ts"
import { renderList, renderPullRequest, renderValue } from "./render.ts"

const pull = { number: z.int(), url: z.string(), title: z.string(), state: z.string() }

/** Filled in by the runner: owner/name of the sandbox's checkout, for a session agent that cannot look. */
const checkout = z.string().optional()

const createPr = wireRequest(
  "create-pr",
  30_000,
  {
    branch: z.string(),
    title: z.string(),
    body: z.string().optional(),
    base: z.string().optional(),
    checkout,
  },
  {
    ...pull,
    /** The branch had this open pull request before: nothing of the request was used. */
    existed: z.boolean().optional(),
  },
)

const updatePr = wireRequest(
  "update-pr",
  30_000,
  {
    prNumber: z.int(),
    title: z.string().optional(),
    body: z.string().optional(),
    state: z.string().optional(),
    labels: z.array(z.string()).optional(),
    checkout,
  },
  pull,
)

const repoOnWire = { owner: z.string().optional(), repo: z.string().optional(), checkout }

const listPullRequests = wireRequest(
  "list-pull-requests",
  30_000,
  { ...repoOnWire, state: z.string().optional(), limit: z.int().optional() },
  { pulls: z.array(entity) },
)

const inspectPullRequest = wireRequest(
  "inspect-pull-request",
  30_000,
  {
    ...repoOnWire,
    prNumber: z.int(),
    filesLimit: z.int().optional(),
    commentsLimit: z.int().optional(),
  },
  { data: z.unknown() },
)

export const requests = [createPr, updatePr, listPullRequests, inspectPullRequest] as const

const repo = {
  owner: text("Repository owner; default: this session's repository").optional(),
  repo: text("Repository name; required with owner").optional(),
}

const ownerWithRepo = {
  error: "must be given together with repo, or not at all",
  path: ["owner"],
}

export const operations = [
  sessionOperation({
    name: "create-pull-request",
    method: "POST",
    path: "/api/create-pull-request",
    doc: "Open a pull request from a pushed branch.",
    tools: [
      {
        name: "create_pull_request",
        description: "Open a pull request. Push the branch first.",
        render: (reply) =>
          reply.existed === true
            ? `No pull request was opened: the branch has an open one. It keeps its title and description; change them with update_pull_request (pr_number ${reply.number}).\n${renderPullRequest(reply)}`
            : renderPullRequest(reply),
      },
    ],
    input: z.object({
      branch: text("Branch with the changes"),
      title: text("Title"),
      body: prose("Description in Markdown").optional(),
      base: text("Branch to merge into; default: the default branch").optional(),
    }),
    output: createPr.result,
    request: createPr,
    toFields: unchanged,
    toReply: unchanged,
    announce: {
      frame: "pr-created",
      toFields: ({ number, title, url, state }) => ({ number, title, url, status: state }),
    },
  }),
  sessionOperation({
    name: "update-pull-request",
    method: "POST",
    path: "/api/update-pull-request",
    doc: "Change the title, body, state or labels of a pull request.",
    tools: [
      {
        name: "update_pull_request",
        description: "Change the title, description, state or labels of a pull request.",
        render: renderPullRequest,
      },
    ],
    input: z.object({
      pr_number: wholeNumber("Pull request number", { min: 1 }),
      title: text("New title").optional(),
      body: prose("New description in Markdown").optional(),
      state: oneOf("open reopens, closed closes", ["open", "closed"]).optional(),
      labels: texts("All labels; replaces the current ones").optional(),
    }),
    output: updatePr.result,
    request: updatePr,
    toFields: ({ pr_number, ...rest }) => ({ prNumber: pr_number, ...rest }),
    toReply: unchanged,
  }),
  sessionOperation({
    name: "list-pull-requests",
    method: "GET",
    path: "/api/pull-requests",
    doc: "List the pull requests of a repository.",
    tools: [
      {
        name: "list_pull_requests",
        description: "List the pull requests of this session's repository or of another one.",
        render: ({ pulls }) => renderList(pulls, "pull request", "pull requests"),
      },
    ],
    input: z
      .object({
        ...repo,
        state: oneOf("State; default: open", ["open", "closed", "all"]).optional(),
        limit: queryNumber("Maximum number", { min: 1, max: 100 }).optional(),
      })
      .refine((input) => bothOrNeither(input.owner, input.repo), ownerWithRepo),
    output: listPullRequests.result,
    request: listPullRequests,
    toFields: unchanged,
    toReply: unchanged,
  }),
  sessionOperation({
    name: "inspect-pull-request",
    method: "GET",
    path: "/api/pull-request",
    doc: "Read a pull request with its files, comments, checks and reviews.",
    tools: [
      {
        name: "inspect_pull_request",
        description: "Read a pull request with its files, comments, checks and reviews.",
        render: renderValue,
      },
    ],
    input: z
      .object({
        ...repo,
        pr_number: queryNumber("Pull request number", { min: 1 }),
        files_limit: queryNumber("Maximum number of files", { min: 1, max: 300 }).optional(),
        comments_limit: queryNumber("Maximum number of comments", { min: 1, max: 300 }).optional(),
      })
      .refine((input) => bothOrNeither(input.owner, input.repo), ownerWithRepo),
    output: z.unknown(),
    request: inspectPullRequest,
    toFields: ({ pr_number, files_limit, comments_limit, ...rest }) => ({
      ...rest,
      prNumber: pr_number,
      filesLimit: files_limit,
      commentsLimit: comments_limit,
    }),
    toReply: ({ data }) => data,
  }),
] as const

/** Settings of the workspace: directories, repositories, git, persona files. */
import { homedir } from "node:os"
import { join } from "node:path"
import { z } from "zod"
import {
  directory,
  gitDepth,
  gitName,
  gitUrl,
  jsonOf,
  personaList,
  repositoryList,
  seconds,
} from "../fields.ts"
import type { SettingGroup } from "../setting.ts"

export const workspaceSettings = {
  workDir: {
    env: "WORK_DIR",
    reaches: [],
    setBy: "image",
    flag: "work-dir",
    doc: "the directory the agent works in; `up` keeps a session for each one",
    schema: directory,
    // On a laptop, `doctor` checks what `up` would use.
    fallback: ({ command, cwd, env }) =>
      command === "run" || (command === "doctor" && env["DO_WS_URL"]) ? "/workspace" : cwd,
  },
  stateDir: {
    env: "SANDPIPER_STATE_DIR",
    reaches: [],
    setBy: "image",
    flag: "state-dir",
    doc: "files that must survive a restart: outbox, channel map, OpenCode's sessions and configuration; a runner of another SESSION_ID removes what is the session's; `up` uses one directory below the default for each WORK_DIR",
    schema: directory,
    fallback: ({ env }) =>
      join(env["XDG_STATE_HOME"] || join(env["HOME"] || homedir(), ".local", "state"), "sandpiper"),
  },
  ownDisk: {
    env: "SANDPIPER_OWN_DISK",
    reaches: [],
    setBy: "fleet",
    doc: "1: the disk is the sandbox's own; a runner of another session removes the histories of shells and the passwords of git from the home directories. start.sh sets it",
    schema: z.enum(["0", "1"], { error: "must be 0 or 1" }).transform((value) => value === "1"),
    fallback: () => "0",
  },
  diskFile: {
    env: "SANDBOX_DISK_FILE",
    reaches: [],
    setBy: "fleet",
    doc: "a file in which the fleet says how full the disk of the sandbox is",
    schema: z.string().optional(),
  },
  repoUrl: {
    env: "REPO_URL",
    reaches: [],
    setBy: "session",
    doc: "repository that is cloned into the workspace; the agent works in it",
    schema: gitUrl.optional(),
  },
  repoBranch: {
    env: "REPO_BRANCH",
    reaches: [],
    setBy: "session",
    doc: "branch of REPO_URL",
    schema: gitName.optional(),
  },
  repoBranchCreate: {
    env: "REPO_BRANCH_CREATE",
    reaches: [],
    setBy: "session",
    doc: "1: a REPO_BRANCH that the repository does not have is created in the clone",
    schema: z.enum(["0", "1"], "must be 0 or 1").optional(),
  },
  repoRef: {
    env: "REPO_REF",
    reaches: [],
    setBy: "session",
    doc: "commit or tag of REPO_URL that a new clone checks out",
    schema: gitName.optional(),
  },
  repoDepth: {
    env: "REPO_DEPTH",
    reaches: [],
    setBy: "session",
    doc: "number of commits of REPO_URL to fetch; all if not set",
    schema: gitDepth.optional(),
  },
  moreRepositories: {
    env: "REPOS_JSON",
    reaches: [],
    setBy: "session",
    doc: "further repositories: [{url, branch?, ref?, depth?, name?, token?}, ...]",
    schema: jsonOf(
      repositoryList,
      "a JSON list of {url, branch?, ref?, depth?, name?, token?}",
    ).optional(),
    secret: true,
  },
  gitUserName: {
    env: "GIT_USER_NAME",
    reaches: ["child", "operator", "image"],
    doc: "author name of commits",
    schema: z.string().max(200).optional(),
  },
  gitUserEmail: {
    env: "GIT_USER_EMAIL",
    reaches: ["child", "operator", "image"],
    doc: "author email of commits",
    schema: z.string().max(200).optional(),
  },
  githubToken: {
    env: "GITHUB_TOKEN",
    reaches: ["child", "operator", "image"],
    doc: "git's password for the host of REPO_URL only (github.com if REPO_URL is not set)",
    schema: z.string().min(1).optional(),
    secret: true,
  },
  gitTokens: {
    env: "GIT_TOKENS",
    reaches: ["child", "sandbox", "image"],
    doc: "where git and gh get passwords: settings (GITHUB_TOKEN, REPO_URL), or session: also short-lived tokens that the session agent issues",
    schema: z.enum(["settings", "session"], { error: "must be settings or session" }),
    fallback: () => "settings",
  },
  gitPullOnRestore: {
    env: "GIT_PULL_ON_RESTORE",
    reaches: ["child", "sandbox", "image"],
    doc: "when a clean clone is fast-forwarded: never, restore (after a snapshot or reboot), always (at every start)",
    schema: z.enum(["never", "restore", "always"], { error: "must be never, restore or always" }),
    fallback: () => "restore",
  },
  gitPullEverySeconds: {
    env: "GIT_PULL_EVERY_SECONDS",
    reaches: ["child", "sandbox", "image"],
    doc: "minimum time between two pulls",
    schema: seconds,
    fallback: () => "300",
  },
  personaFiles: {
    env: "PERSONA_FILES_JSON",
    reaches: [],
    setBy: "fleet",
    doc: "files that the agent always reads: [{filename, content, sortOrder?}, ...]",
    schema: jsonOf(personaList, "a JSON list of {filename, content, sortOrder?}").optional(),
  },
} satisfies SettingGroup

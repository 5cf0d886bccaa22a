/** Rows of the tools for repositories and pull requests. */
import { expect } from "bun:test"
import { execa } from "execa"
import { readWithGh } from "../kit/gh.ts"
import { type Rows, succeed } from "../kit/row.ts"

const HERON = "birds/heron"
const repository = { owner: "birds", repo: "heron" }

export const gitRows: Rows<
  | "create_pull_request"
  | "update_pull_request"
  | "list_pull_requests"
  | "inspect_pull_request"
  | "report_git_state"
  | "list_repos"
  | "read_repo_file"
> = {
  create_pull_request: async (house) => {
    const args = { branch: "fix-nest", title: "Mend the nest", body: "It leaks." }
    await succeed(house, "create_pull_request", args)
    const made = house.github.repository(HERON).pulls.find(({ head }) => head.ref === "fix-nest")
    expect(made).toMatchObject({
      title: "Mend the nest",
      body: "It leaks.",
      base: { ref: "trunk" },
      state: "open",
    })
    // The GitHub CLI, another client of the same API, shows it too.
    const shown = await readWithGh(house, `repos/${HERON}/pulls/${made?.number}`)
    expect(shown).toMatchObject({ title: "Mend the nest", state: "open" })
  },
  update_pull_request: async (house) => {
    const pull = house.github.openPull(HERON, "old-nest", "Old title")
    await succeed(house, "update_pull_request", {
      pr_number: pull.number,
      title: "New title",
      state: "closed",
      labels: ["birds"],
    })
    expect(pull).toMatchObject({ title: "New title", state: "closed", labels: [{ name: "birds" }] })
    const shown = await readWithGh(house, `repos/${HERON}/pulls/${pull.number}`)
    expect(shown).toMatchObject({ title: "New title", state: "closed" })
  },
  list_pull_requests: async (house) => {
    house.github.openPull(HERON, "listed-nest", "A listed pull request")
    const { read } = await succeed(house, "list_pull_requests", repository)
    expect(read).toContain("A listed pull request")
  },
  inspect_pull_request: async (house) => {
    const { number } = house.github.openPull(HERON, "seen-nest", "A pull request to read")
    // Without owner and repo: the runner names the repository of its checkout.
    const { read } = await succeed(house, "inspect_pull_request", { pr_number: number })
    expect(read).toContain("A pull request to read")
    expect(read).toContain("docs/nest.md")
    expect(read).toContain(`comment on ${number}`)
  },
  report_git_state: async (house) => {
    await execa("git", ["checkout", "-q", "-b", "reported"], { cwd: house.sandbox.workDir })
    await succeed(house, "report_git_state", {
      branch: "reported",
      base_branch: "trunk",
      commit_count: 7,
    })
    await house.client.until(
      () =>
        house.client.events.some(
          (event) =>
            event["name"] === "git" &&
            JSON.stringify(event["value"]).includes('"commitCount":7') &&
            JSON.stringify(event["value"]).includes('"branch":"reported"'),
        ),
      "git state at the client",
    )
  },
  list_repos: async (house) => {
    const { read } = await succeed(house, "list_repos", {})
    expect(read).toContain('"fullName":"birds/heron"')
    expect(read).toContain('"defaultBranch":"trunk"')
  },
  read_repo_file: async (house) => {
    const { read } = await succeed(house, "read_repo_file", { ...repository, path: "docs/nest.md" })
    expect(read).toContain("The nest is in the reeds.")
  },
}

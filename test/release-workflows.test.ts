/** What the workflows of CI and releases may do: the programs that they run are pinned, and each job has only the rights it needs. */
import { describe, expect, test } from "bun:test"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { z } from "zod"

const folder = join(import.meta.dir, "../.github/workflows")

const permissions = z.record(z.string(), z.enum(["read", "write", "none"]))
const step = z.object({
  uses: z.string().optional(),
  with: z.record(z.string(), z.unknown()).optional(),
})
const job = z.object({
  if: z.string().optional(),
  permissions: permissions.optional(),
  uses: z.string().optional(),
  steps: z.array(step).default([]),
  container: z.object({ options: z.string().optional() }).optional(),
})
const workflow = z.object({
  on: z.record(z.string(), z.unknown()),
  permissions,
  jobs: z.record(z.string(), job),
})

const workflows = readdirSync(folder).map((name) => {
  const text = readFileSync(join(folder, name), "utf8")
  return { name, text, ...workflow.parse(Bun.YAML.parse(text)) }
})
const jobs = workflows.flatMap((one) =>
  Object.entries(one.jobs).map(([name, its]) => ({ name: `${one.name}: ${name}`, from: one, its })),
)

const WRITES: Readonly<Record<string, readonly string[]>> = {
  "release.yml: binary": ["id-token", "attestations"],
  "release.yml: image": ["id-token", "attestations"],
  "release.yml: release": ["contents"],
}

test("every action is pinned by the digest of a commit, with its version in a comment", () => {
  const lines = workflows.flatMap(({ text }) => text.match(/^.*\buses: .*$/gm) ?? [])
  expect(lines.length).toBeGreaterThan(5)
  for (const line of lines.filter((one) => !one.includes("uses: ./")))
    expect(line).toMatch(/uses: [\w-]+\/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/)
})

test("one action has one digest in all workflows", () => {
  const digests = new Map<string, Set<string>>()
  for (const { its } of jobs)
    for (const { uses } of its.steps) {
      const [action = "", digest = ""] = uses?.split("@") ?? []
      digests.set(action, (digests.get(action) ?? new Set()).add(digest))
    }
  for (const found of digests.values()) expect(found.size).toBe(1)
})

describe("the rights of jobs", () => {
  test("a workflow gives no rights to all of its jobs, and each job names its own", () => {
    for (const { permissions: all } of workflows) expect(all).toEqual({})
    for (const { its } of jobs) expect(its.permissions).toBeDefined()
  })
  test.each(jobs)("$name writes only what its work needs", ({ name, its }) => {
    const written = Object.entries(its.permissions ?? {}).filter(([, right]) => right === "write")
    expect(written.map(([right]) => right)).toEqual([...(WRITES[name] ?? [])])
  })
  test("no checkout leaves its token to the programs that run after it", () => {
    const checkouts = jobs.flatMap(({ its }) =>
      its.steps.filter(({ uses }) => uses?.startsWith("actions/checkout@")),
    )
    expect(checkouts.length).toBeGreaterThan(0)
    for (const one of checkouts) expect(one.with).toMatchObject({ "persist-credentials": false })
  })
  test("a change from a fork runs in no privileged container and no job of it has a secret", () => {
    for (const { from, its } of jobs.filter((one) => "pull_request" in one.from.on)) {
      expect(from.text).not.toContain("secrets.")
      expect(from.on).not.toHaveProperty("pull_request_target")
      if (its.container?.options?.includes("--privileged") === true)
        expect(its.if).toBe(
          "github.event_name != 'pull_request' || github.event.pull_request.head.repo.full_name == github.repository",
        )
    }
  })
})

test("a release has signed provenance for its binaries and for every pushed image", () => {
  const release = workflows.find(({ name }) => name === "release.yml")
  const attested = (name: string) =>
    release?.jobs[name]?.steps.find(({ uses }) =>
      uses?.startsWith("actions/attest-build-provenance@"),
    )?.with
  expect(attested("binary")).toMatchObject({ "subject-path": "sandpiper-*.tar.gz" })
  expect(attested("image")).toMatchObject({
    "subject-digest": "${{ steps.push.outputs.digest }}",
    "push-to-registry": true,
  })
})

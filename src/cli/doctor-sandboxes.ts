/** What `doctor` says about sandboxes of `serve` on this machine: each part was tried, not only looked for. */
import { rmSync } from "node:fs"
import { join } from "node:path"
import { probeMachine } from "../fleet/providers/local-machine.ts"
import { describeError } from "../lib/log.ts"
import type { Settings } from "../settings/settings.ts"
import { writableAncestor } from "./directory-check.ts"

interface SandboxFinding {
  readonly what: string
  readonly verdict: "ok" | "warn"
  readonly text: string
}

const PING_MS = 2000

const docker = async ({ dockerSocket }: Settings): Promise<SandboxFinding> => {
  const what = "docker"
  try {
    const response = await fetch("http://docker/_ping", {
      unix: dockerSocket,
      signal: AbortSignal.timeout(PING_MS),
      proxy: "",
    })
    return response.ok
      ? { what, verdict: "ok", text: `answers at ${dockerSocket}` }
      : { what, verdict: "warn", text: `${dockerSocket} answers with ${response.status}` }
  } catch {
    const text = `no Docker and no Podman at ${dockerSocket} (DOCKER_SOCKET)`
    return { what, verdict: "warn", text }
  }
}

const local = async ({ stateDir }: Settings): Promise<readonly SandboxFinding[]> => {
  try {
    // The kernel's answer depends on the disk, so it is asked on the one that holds the sandboxes.
    const folder = join(await writableAncestor(stateDir), `.sandpiper-probe-${crypto.randomUUID()}`)
    try {
      const { findings } = await probeMachine(folder)
      return findings.map(({ part, isThere, text }) => ({
        what: part,
        verdict: isThere ? "ok" : "warn",
        text,
      }))
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  } catch (error) {
    return [{ what: "bubblewrap", verdict: "warn", text: describeError(error) }]
  }
}

export const sandboxFindings = async (settings: Settings): Promise<readonly SandboxFinding[]> => [
  ...(await local(settings)),
  await docker(settings),
]

/** Isolated local sandboxes for the stack tests. The program of a sandbox is a web server instead of a runner. */
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { SandboxProvider, SandboxSpec } from "../../src/fleet/providers/contract.ts"
import { createLocalProvider } from "../../src/fleet/providers/local.ts"
import type { Isolation, IsolatedModeOptions } from "../../src/fleet/providers/local-isolated.ts"
import { probeMachine } from "../../src/fleet/providers/local-machine.ts"
import { systemClock } from "../../src/lib/clock.ts"

export interface IsolatedPlace {
  readonly root: string
  readonly provider: SandboxProvider
  /** Another process of the fleet on the same files. */
  readonly open: () => SandboxProvider
  readonly start: (session: string, change?: Partial<SandboxSpec>) => Promise<string>
  /** Standard output of a shell command in a sandbox, and its exit code. */
  readonly shell: (ref: string, script: string) => Promise<{ code: number; text: string }>
  readonly end: () => Promise<void>
}

export interface IsolatedPlaceOptions {
  readonly hostPorts?: readonly number[]
  readonly egress?: IsolatedModeOptions["egress"]
  readonly isolation?: Partial<Isolation>
}

const program = '#!/bin/sh\nexec python3 -m http.server "$GATEWAY_PORT" --bind 127.0.0.1\n'

export const limit = (): AbortSignal => AbortSignal.timeout(60_000)

export const specOf = (session: string, change: Partial<SandboxSpec> = {}): SandboxSpec => {
  const generation = change.generation ?? 1
  return {
    session,
    generation,
    name: `sp-${session}-${generation}`,
    labels: { deployment: "d", tenant: "t", session, generation: String(generation) },
    image: { kind: "image", id: "-" },
    environment: { SESSION_ID: session },
    volumes: [],
    ports: [9000],
    resources: {},
    idleMs: 1000,
    lifeMs: 1000,
    ...change,
  }
}

export const openIsolated = async (options: IsolatedPlaceOptions = {}): Promise<IsolatedPlace> => {
  const root = mkdtempSync(join(tmpdir(), "isolated-"))
  const self = join(root, "web-server")
  writeFileSync(self, program)
  chmodSync(self, 0o755)
  const { isolation, findings } = await probeMachine(join(root, "fleet", "probe"))
  if (!isolation) throw new Error(`this machine has no isolation: ${JSON.stringify(findings)}`)
  const open = () =>
    createLocalProvider({
      root: join(root, "fleet"),
      self: [self],
      clock: systemClock,
      isolated: {
        isolation: { ...isolation, ...options.isolation },
        programs: [self],
        variables: {},
        hostPorts: () => options.hostPorts ?? [],
        egress: options.egress,
      },
    })
  const provider = open()
  return {
    root,
    provider,
    open,
    start: async (session, change) => {
      const made = await provider.create(specOf(session, change), limit())
      if (made.is !== "ok") throw new Error(`not created: ${JSON.stringify(made)}`)
      return made.value.ref
    },
    shell: async (ref, script) => {
      const result = await provider.exec(ref, { argv: ["bash", "-c", script] }, limit())
      if (result.is !== "ok") throw new Error(`not run: ${JSON.stringify(result)}`)
      return { code: result.value.exitCode, text: result.value.stdout + result.value.stderr }
    },
    end: async () => {
      for await (const { ref } of provider.list({ deployment: "d" })) await provider.terminate(ref)
      rmSync(root, { recursive: true, force: true })
    },
  }
}

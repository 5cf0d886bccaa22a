/** The version that a snapshot is marked with is that of the program in it, and decides whether it is restored. */
import { expect, test } from "bun:test"
import type { SandboxCommandResult, SandboxProvider } from "../../src/fleet/providers/contract.ts"
import { openSqliteStore } from "../../src/fleet/store/sqlite-store.ts"
import type { StoredSession } from "../../src/fleet/store/ports.ts"
import { keeperOn, memoryProvider, policyFor } from "./kit/fleet.ts"

const limit = () => AbortSignal.timeout(60_000)
const FLEET = "0.2.0"

/** A session whose sandbox says this of its program. `sleep` resolves to the version of its snapshot. */
const newScene = async (said: { stdout: string; exitCode?: number }, minimumVersion?: string) => {
  const store = openSqliteStore(":memory:")
  let snapshots = 0
  const provider: SandboxProvider = {
    ...memoryProvider({ snapshot: "copy", supportsPause: false, exec: true }),
    exec: async (_ref, { argv }) => {
      const isAsked = argv.join(" ") === "sandpiper --version"
      const value: SandboxCommandResult = { exitCode: 0, stdout: "", stderr: "" }
      return { is: "ok", value: isAsked ? { ...value, ...said } : value }
    },
    snapshot: async () => ({ is: "ok", value: { id: `snapshot-${++snapshots}` } }),
  }
  const { keeper, notes } = await keeperOn(store, provider, "r1", {
    version: FLEET,
    policy: { ...policyFor(provider), minimumVersion },
  })
  await keeper.add({ id: "s", tenant: "user:a", provider: "noop", environment: {} })
  const until = (holds: (session: StoredSession) => boolean) => keeper.waitFor("s", holds, limit())
  return {
    notes,
    stop: keeper.stop,
    setSnapshot: (version: string | undefined) =>
      store.change("s", Date.now(), (row) => ({
        ...row,
        life: { ...row.life, snapshot: { id: "restored", version } },
      })),
    wake: async () => {
      await keeper.want("s", "running")
      await until(({ life }) => life.phase === "running" && !life.pending)
    },
    sleep: async () => {
      await keeper.want("s", "asleep")
      const asleep = await until(({ life }) => life.phase === "absent" && !life.pending)
      return asleep?.life.snapshot?.version
    },
  }
}

test("a snapshot has the version of the program in its sandbox, and an older one than the minimum is not restored", async () => {
  const said = { stdout: "sandpiper 0.1.4 (abcdef)\n" }
  const scene = await newScene(said, "0.2")
  await scene.wake()
  expect(await scene.sleep()).toBe("0.1.4")
  await scene.wake()
  expect(scene.notes).toEqual([expect.stringContaining("not supported any more")])
  said.stdout = "sandpiper 0.2.1 (abcdef)\n"
  expect(await scene.sleep()).toBe("0.2.1")
  await scene.wake()
  expect(scene.notes).toHaveLength(1)
  await scene.stop()
})

test("a sandbox that does not say its version has that of the snapshot it was made from, or of the fleet's image", async () => {
  for (const said of [{ stdout: "" }, { stdout: "sandpiper 0.3.0", exitCode: 1 }]) {
    const fresh = await newScene(said)
    await fresh.wake()
    expect(await fresh.sleep()).toBe(FLEET)
    await fresh.stop()
    for (const version of ["0.1.4", undefined]) {
      const restored = await newScene(said)
      await restored.setSnapshot(version)
      await restored.wake()
      expect(await restored.sleep()).toBe(version)
      await restored.stop()
    }
  }
})

/** Isolated sandboxes of a fleet that is not root: user namespaces, an overlay of its own, signals instead of cgroups. */
import { expect, test } from "bun:test"
import { chmodSync, chownSync, copyFileSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

const NOBODY = 65_534

test("a user without rights starts, pauses, measures, snapshots, restores and ends an isolated sandbox", async () => {
  const root = mkdtempSync(join(tmpdir(), "unprivileged-"))
  try {
    chmodSync(root, 0o755)
    const bun = join(root, "bun")
    copyFileSync(process.execPath, bun)
    chmodSync(bun, 0o755)
    const built = await Bun.build({
      entrypoints: [join(import.meta.dir, "../kit/programs/unprivileged-fleet.ts")],
      target: "bun",
      outdir: root,
    })
    expect(built.success).toBe(true)
    chownSync(root, NOBODY, NOBODY)
    const user = String(NOBODY)
    const child = Bun.spawn(
      [
        "setpriv",
        "--reuid",
        user,
        "--regid",
        user,
        "--clear-groups",
        bun,
        join(root, "unprivileged-fleet.js"),
        root,
      ],
      { cwd: root, env: { PATH: "/usr/bin:/bin", HOME: root }, stdout: "pipe", stderr: "inherit" },
    )
    const text = await new Response(child.stdout).text()
    expect(await child.exited).toBe(0)
    const seen = JSON.parse(text) as Record<string, unknown>
    expect(seen).toMatchObject({
      uid: NOBODY,
      states: ["running", "paused", "running", "missing"],
      // With its processes stopped and without.
      measured: [7, 7],
      ended: "ok",
      again: "ok",
      left: 0,
    })
    // Its runner is the only program left, and runs.
    expect(seen["afterEnd"]).toBe("1\n0\n")
    const restored = seen["restored"] as { readonly value: { readonly stdout: string } }
    // The deleted directory stays deleted, and the sandbox has few processes of its own.
    expect(restored.value.stdout).toMatch(/^kept\n1000\n\d\n$/)
  } finally {
    rmSync(root, { recursive: true, force: true })
  }
})

/** The launcher of an isolated sandbox whose pasta ends before the sandbox's program runs. */
import { expect, test } from "bun:test"
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { boxArguments, type BoxPlan, launchCommand } from "../../src/fleet/providers/local-box.ts"
import { createBase } from "../../src/fleet/providers/local-layers.ts"
import { writeMounts } from "../../src/fleet/providers/local-mounts.ts"
import { findLeftovers } from "../harness/leftovers.ts"
import { untilTrue } from "../kit/until-true.ts"

const PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/** Its last argument is the process of bubblewrap. Ends when that one has its child, which waits for pasta. */
const failingPasta = `#!/bin/sh
for box; do :; done
until [ "$(cat "/proc/$box/comm")" = bwrap ] && [ -n "$(cat "/proc/$box/task/$box/children")" ]; do :; done
exit 1
`

test("a sandbox whose pasta fails leaves no process of bubblewrap", async () => {
  const place = mkdtempSync(join(tmpdir(), "pasta-"))
  const disk = join(place, "disk")
  const programs = join(place, "bin")
  try {
    for (const path of [disk, join(disk, "work"), programs]) mkdirSync(path)
    writeFileSync(join(programs, "pasta"), failingPasta)
    chmodSync(join(programs, "pasta"), 0o755)
    await createBase(join(disk, "upper"), undefined)
    const plan: BoxPlan = {
      mounts: join(place, "mounts"),
      disk,
      diskKind: "copy",
      layers: [],
      binds: [],
      network: { inbound: [], outbound: [], isDirect: true },
      becomes: undefined,
      users: "one",
      environment: { PATH },
      cwd: "/",
      command: ["/usr/bin/true"],
    }
    writeMounts(plan)
    const launcher = Bun.spawn([...launchCommand(plan)], {
      cwd: "/",
      env: { PATH: `${programs}:${PATH}` },
      stdin: new Blob([boxArguments(plan)]),
      stdout: "ignore",
      stderr: "ignore",
    })
    expect(await launcher.exited).not.toBe(0)
    // The path of `place` is in the environment of all its processes.
    await untilTrue(() => findLeftovers(place).processes.length === 0, "the end of all processes")
  } finally {
    rmSync(place, { recursive: true, force: true })
  }
})

/** `sandpiper run`: the runner daemon of a sandbox, until a signal, the link or the session agent ends it. */
import { systemClock, within } from "../lib/clock.ts"
import { version } from "../lib/version.ts"
import type { Ending } from "../runner/daemon-options.ts"
import { descendantsOf, endAll, listProcesses } from "../runner/host/processes.ts"
import { closeMemory } from "../runner/host/private-memory.ts"
import { startReaper } from "../runner/host/reaper.ts"
import { openStateParts } from "../runner/state/open-parts.ts"
import type { Settings } from "../settings/settings.ts"
import { type Command, STOP_LIMIT_MS, untilSignal } from "./command.ts"
import { findModels } from "./find-models.ts"
import { loadBuiltPage } from "./load-page-files.ts"

export const run: Command = async ({ settings, log, rereadSettings }) => {
  closeMemory(log)
  const signalled = untilSignal()
  const reaper = startReaper({ clock: systemClock, log })
  // The endpoints answer while the modules of the daemon are loaded.
  const [{ endpoints, problems, model }, pageFiles, { createDaemon }, state] = await Promise.all([
    findModels(settings),
    loadBuiltPage(),
    import("../runner/daemon.ts"),
    openStateParts({ config: settings, log }),
  ])
  for (const problem of problems) log.warn("model.endpoint", { problem })
  const daemon = createDaemon({
    config: { ...settings, model },
    endpoints,
    state,
    link: { url: settings.doUrl ?? "", token: settings.runnerToken ?? "" },
    version,
    log,
    readAgain: rereadSettings,
    pageFiles,
  })
  await daemon.start()
  const ending = await Promise.race([daemon.done, signalled, untilInputEnds(settings)])
  const inTime = await within(systemClock, STOP_LIMIT_MS, daemon.stop(ending))
  reaper.stop()
  // Processes that the agent or a service left behind would outlive the runner.
  await endAll(() => descendantsOf(process.pid, listProcesses()), systemClock)
  log.info("daemon.ended", { ...ending, inTime })
  return ending.code
}

/** The parent process holds the other end of the pipe; it closes even if the parent is killed. */
const untilInputEnds = ({ stopWithStdin }: Settings): Promise<Ending> =>
  new Promise((resolve) => {
    if (!stopWithStdin) return
    process.stdin.on("end", () => resolve({ code: 0, why: "the standard input has ended" }))
    process.stdin.resume()
  })

/** `sandpiper up`: session agent, runner, page and chat on this machine, until the chat or a signal ends them. */
import { existsSync } from "node:fs"
import { systemClock, within } from "../lib/clock.ts"
import { version } from "../lib/version.ts"
import { readAddress } from "../hub/hosts/bun/address.ts"
import { closeMemory } from "../runner/host/private-memory.ts"
import { startReaper } from "../runner/host/reaper.ts"
import { SettingsError } from "../settings/settings-error.ts"
import { type Command, type CommandContext, print, STOP_LIMIT_MS, untilSignal } from "./command.ts"
import { openHistory } from "./chat/history-file.ts"
import { findBrowser } from "./page-link.ts"
import { openPlace } from "./place/open-place.ts"
import { describeOwner } from "./place/owner-text.ts"
import { type Place, sessionNameIn } from "./place/place.ts"

export const up: Command = async (context) => {
  const { settings, args, log } = context
  if (!existsSync(settings.workDir))
    throw new SettingsError(
      `${settings.workDir} does not exist: create the directory, or name another one`,
    )
  const opened = openPlace(settings, { fresh: args.fresh === true, now: Date.now })
  if ("busy" in opened) return attach(context, opened.busy)
  closeMemory(log)
  const signalled = untilSignal()
  const reaper = startReaper({ clock: systemClock, log })
  const { startLocalStack } = await import("./local-stack.ts")
  const stack = await startLocalStack({
    settings: {
      ...settings,
      workDir: opened.place.directory,
      stateDir: opened.place.stateDir,
      sessionId: sessionNameIn(opened.place.stateDir, settings.sessionId),
    },
    base: settings.stateDir,
    version,
    log,
    input: process.stdin,
    output: process.stdout,
    interactive: process.stdin.isTTY === true,
    ...meansOf(context),
  })
  const code = await Promise.race([stack.finished, signalled.then(() => 0)])
  await within(systemClock, STOP_LIMIT_MS, stack.stop())
  reaper.stop()
  opened.lock.release()
  return code
}

/** Input that is not a terminal is prompts for the chat. In a terminal the page is enough where a browser can show it. */
const meansOf = ({ settings, args }: CommandContext) => {
  const browser = findBrowser(settings)
  if (args.open === true && browser === undefined)
    throw new SettingsError(
      "--open found no browser on this machine (no display, or no xdg-open): leave it out, and open the printed link",
    )
  return {
    chat: args.chat === true || process.stdin.isTTY !== true || browser === undefined,
    browser: args.open === true ? browser : undefined,
  }
}

/** Another `up` runs in this directory. In a terminal, this one can become a chat with it. */
const attach = async ({ settings }: CommandContext, place: Place): Promise<number> => {
  const where = `another \`up\` runs in ${place.directory} (${describeOwner(place.owner)})`
  const address = readAddress(place.stateDir)
  if (process.stdin.isTTY !== true || address === undefined)
    throw new Error(
      `${where}: attach to it with \`sandpiper chat\`, or start another session with \`sandpiper up --new\``,
    )
  print(`${where[0]?.toUpperCase()}${where.slice(1)}.\n`)
  print("Attach to its session? [Y/n] ")
  const answer = await nextLine()
  if (!/^(y|yes|)$/i.test(answer.trim())) {
    print("Start another session here with `sandpiper up --new`.\n")
    return 0
  }
  const [{ startChat }, { sessionOf }] = await Promise.all([
    import("./terminal-chat.ts"),
    import("./find-hub.ts"),
  ])
  const conversation = startChat({
    input: process.stdin,
    output: process.stdout,
    interactive: true,
    clock: systemClock,
    hub: address,
    session: sessionOf(settings, address),
    model: settings.model,
    history: openHistory(place.stateDir),
    greeting: () =>
      `\nAttached. The agent works in ${place.directory}\nCtrl-D leaves; the session goes on.\n`,
  })
  process.on("SIGINT", conversation.interrupt)
  return conversation.finished
}

/** The terminal delivers whole lines until the chat switches it to single keys. No readline: it would keep the input. */
const nextLine = (): Promise<string> =>
  new Promise((resolve) => process.stdin.once("data", (bytes: Buffer) => resolve(String(bytes))))

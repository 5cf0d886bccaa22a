/** Settings of the link to the session agent. */
import { z } from "zod"
import { isLoopback } from "../../lib/git-url.ts"
import { seconds, someText, urlWith } from "../fields.ts"
import type { SettingGroup } from "../setting.ts"

export const linkSettings = {
  doUrl: {
    env: "DO_WS_URL",
    reaches: [],
    setBy: "fleet",
    flag: "do-url",
    doc: "WebSocket address of the session agent",
    schema: urlWith(
      "must be a wss:// URL (ws:// only to a loopback host)",
      (url) => url.protocol === "wss:" || (url.protocol === "ws:" && isLoopback(url.hostname)),
    ),
    requiredBy: ["run"],
  },
  runnerToken: {
    env: "RUNNER_TOKEN",
    reaches: [],
    setBy: "fleet",
    flag: "runner-token",
    doc: "token that authenticates the runner to the session agent; prefer the variable, `ps` shows flags",
    schema: someText,
    requiredBy: ["run"],
    secret: true,
  },
  sessionId: {
    env: "SESSION_ID",
    reaches: [],
    setBy: "fleet",
    flag: "session-id",
    doc: "the session that this sandbox belongs to",
    schema: z.string().regex(/^[A-Za-z0-9._:-]{1,128}$/, {
      error: "must be 1 to 128 of letters, digits, dot, underscore, colon, dash",
    }),
    fallback: ({ command }) => (command === "run" ? "" : "local"),
    requiredBy: ["run"],
  },
  parentSessionId: {
    env: "PARENT_SESSION_ID",
    reaches: [],
    setBy: "fleet",
    doc: "the session that started this one, for the tool notify_parent",
    schema: someText.optional(),
  },
  configWaitSeconds: {
    env: "CONFIG_WAIT_SECONDS",
    reaches: ["child", "sandbox", "image"],
    doc: "how long the first start of OpenCode waits for the session agent's configuration",
    schema: seconds,
    fallback: () => "2",
  },
  configDrainSeconds: {
    env: "CONFIG_DRAIN_SECONDS",
    reaches: ["child", "sandbox", "image"],
    doc: "how long a new configuration waits for running turns before it ends them",
    schema: seconds,
    fallback: () => "30",
  },
} satisfies SettingGroup

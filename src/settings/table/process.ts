/** Settings of this process: logs, its end, and the session agent that `up` starts. */
import { z } from "zod"
import { count, port, seconds } from "../fields.ts"
import type { SettingGroup } from "../setting.ts"

export const processSettings = {
  hubPort: {
    env: "HUB_PORT",
    reaches: [],
    flag: "hub-port",
    doc: "loopback port of the session agent that `up` starts, 0 for any free one",
    schema: port,
    fallback: () => "0",
  },
  maxChildren: {
    env: "MAX_CHILDREN",
    reaches: [],
    doc: "how many unfinished child sessions a session of `up` or `serve` may have",
    schema: count,
    fallback: () => "20",
  },
  maxChildDepth: {
    env: "MAX_CHILD_DEPTH",
    reaches: [],
    doc: "how deep child sessions of `up` or `serve` may start child sessions of their own",
    schema: count,
    fallback: () => "3",
  },
  orphanSeconds: {
    env: "ORPHAN_SECONDS",
    reaches: ["child", "sandbox", "image"],
    doc: "what a killed `up` or `run` has left running (OpenCode, the key broker, services) ends after this time without another one that takes it over; 0: never",
    schema: seconds,
    fallback: () => "600",
  },
  stopWithStdin: {
    env: "STOP_WITH_STDIN",
    reaches: [],
    setBy: "fleet",
    doc: "1: the runner stops when its standard input ends, as a child process of the hub does",
    schema: z.enum(["0", "1"], { error: "must be 0 or 1" }).transform((value) => value === "1"),
    fallback: () => "0",
  },
  logLevel: {
    env: "LOG_LEVEL",
    reaches: ["child", "sandbox", "image"],
    flag: "log-level",
    doc: "debug, info, warn or error",
    schema: z.enum(["debug", "info", "warn", "error"], {
      error: "must be debug, info, warn or error",
    }),
    fallback: ({ command }) => (command === "up" ? "warn" : "info"),
  },
  logFormat: {
    env: "LOG_FORMAT",
    reaches: ["child", "sandbox", "image"],
    doc: "json, pretty, or auto: pretty on a terminal",
    schema: z.enum(["json", "pretty", "auto"], { error: "must be json, pretty or auto" }),
    fallback: () => "auto",
  },
} satisfies SettingGroup

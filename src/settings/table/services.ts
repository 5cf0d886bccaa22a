/** Settings of the services beside the agent: screen, editor, terminal. */
import { z } from "zod"
import { serviceList } from "../fields.ts"
import type { SettingGroup } from "../setting.ts"

export const serviceSettings = {
  services: {
    env: "SANDPIPER_SERVICES",
    reaches: ["sandbox", "image"],
    doc: "services to start and supervise: all, none, or some of vnc,vscode,ttyd",
    schema: serviceList,
    fallback: () => "none",
  },
  display: {
    env: "DISPLAY",
    reaches: ["agent"],
    doc: "the X display of the vnc service",
    schema: z.string().min(1),
    fallback: () => ":99",
  },
  sessionKind: {
    env: "SESSION_KIND",
    reaches: [],
    setBy: "session",
    doc: "setup: the session prepares a snapshot, and its agent can save service commands and env files",
    schema: z.enum(["normal", "setup"], { error: "must be normal or setup" }),
    fallback: () => "normal",
  },
  snapshotHasDeps: {
    env: "SNAPSHOT_HAS_DEPS",
    reaches: ["sandbox", "image"],
    doc: "1: the snapshot contains installed packages, so that saved services start after a restore; the fleet sets it",
    schema: z.enum(["0", "1"], { error: "must be 0 or 1" }).transform((value) => value === "1"),
    fallback: () => "0",
  },
} satisfies SettingGroup

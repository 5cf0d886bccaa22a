/** Settings of the services beside the agent: screen, editor, terminal. */
import { z } from "zod"
import { serviceList } from "../fields.ts"
import type { SettingGroup } from "../setting.ts"

export const serviceSettings = {
  services: {
    env: "SANDPIPER_SERVICES",
    doc: "services to start and supervise: all, none, or some of vnc,vscode,ttyd",
    schema: serviceList,
    fallback: () => "none",
  },
  display: {
    env: "DISPLAY",
    doc: "the X display of the vnc service",
    schema: z.string().min(1),
    fallback: () => ":99",
  },
} satisfies SettingGroup

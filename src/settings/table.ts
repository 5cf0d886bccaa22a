/** The table of all settings, joined from its groups. Parsing, help and redaction follow from it. */
import type { z } from "zod"
import type { Setting } from "./setting.ts"
import { accessSettings } from "./table/access.ts"
import { agentSettings } from "./table/agent.ts"
import { chatSettings } from "./table/chats.ts"
import { fleetSettings } from "./table/fleet.ts"
import { gatewaySettings } from "./table/gateway.ts"
import { linkSettings } from "./table/link.ts"
import { localSandboxSettings } from "./table/local-sandboxes.ts"
import { processSettings } from "./table/process.ts"
import { sandboxCloudSettings } from "./table/sandbox-clouds.ts"
import { sandboxProviderSettings } from "./table/sandbox-providers.ts"
import { secretSettings } from "./table/secrets.ts"
import { serviceSettings } from "./table/services.ts"
import { storageSettings } from "./table/storage.ts"
import { workspaceSettings } from "./table/workspace.ts"

/** In the order of `--help`. */
export const settingGroups = {
  "Session agent": linkSettings,
  Gateway: gatewaySettings,
  Workspace: workspaceSettings,
  Agent: agentSettings,
  Services: serviceSettings,
  Secrets: secretSettings,
  "Access to the session agent": accessSettings,
  Chats: chatSettings,
  Sandboxes: fleetSettings,
  "Local sandboxes": localSandboxSettings,
  "Sandbox providers": sandboxProviderSettings,
  "Object storage": storageSettings,
  "Sandbox clouds": sandboxCloudSettings,
  Process: processSettings,
} as const

export const settingsTable = {
  ...linkSettings,
  ...gatewaySettings,
  ...workspaceSettings,
  ...agentSettings,
  ...serviceSettings,
  ...secretSettings,
  ...accessSettings,
  ...chatSettings,
  ...fleetSettings,
  ...localSandboxSettings,
  ...sandboxProviderSettings,
  ...storageSettings,
  ...sandboxCloudSettings,
  ...processSettings,
}

export type SettingValues = {
  readonly [Key in keyof typeof settingsTable]: z.output<(typeof settingsTable)[Key]["schema"]>
}

export const settingRows: readonly (readonly [string, Setting])[] =
  Object.entries<Setting>(settingsTable)

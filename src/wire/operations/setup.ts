/** Operations of a setup session: what they save is in the snapshot, and sandboxes that are restored from it use it. */
import { z } from "zod"
import { sandboxOperation } from "./define.ts"
import { envFiles } from "./env-files.ts"
import { ok } from "./fields.ts"
import { serviceInput } from "./services.ts"

export const operations = [
  sandboxOperation({
    name: "save-service-commands",
    method: "POST",
    path: "/api/setup/services",
    doc: "Save the services that start in sandboxes restored from this session's snapshot. Only in a setup session.",
    tools: [
      {
        name: "save_service_commands",
        description:
          "Save the commands of the services that must run in every sandbox made from this setup, such as the dev server. Replaces the list.",
        render: () => "Saved.",
      },
    ],
    input: z.object({
      services: z
        .array(serviceInput, { error: "must be a list of services" })
        .max(32, { error: "must name at most 32 services" })
        .describe("The services"),
    }),
    output: ok,
  }),
  sandboxOperation({
    name: "save-env-files",
    method: "POST",
    path: "/api/setup/env",
    doc: "Save and write the env files of sandboxes restored from this session's snapshot. Only in a setup session.",
    tools: [
      {
        name: "save_env_files",
        description:
          "Save the env files that every sandbox made from this setup gets. Use references from secret_list as values.",
        render: () => "Saved and written.",
      },
    ],
    input: z.object({ files: envFiles }),
    output: ok,
  }),
] as const

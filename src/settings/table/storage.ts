/** Settings of object storage (S3 protocol), where the session agent keeps the files of workspaces. */
import { z } from "zod"
import { someText, urlWith } from "../fields.ts"
import type { SettingGroup } from "../setting.ts"

export const storageSettings = {
  s3Endpoint: {
    env: "S3_ENDPOINT",
    reaches: [],
    doc: "address of the S3 service that stores the files of workspaces; off if it is not set",
    schema: urlWith("must be an http:// or https:// URL", ({ protocol }) =>
      /^https?:$/.test(protocol),
    ).optional(),
  },
  s3Region: {
    env: "S3_REGION",
    reaches: [],
    doc: "region of the S3 service",
    schema: someText.optional(),
  },
  s3Bucket: {
    env: "S3_BUCKET",
    reaches: [],
    doc: "bucket for the files of workspaces; default: workspace",
    schema: someText.optional(),
  },
  s3AccessKeyId: {
    env: "S3_ACCESS_KEY_ID",
    reaches: [],
    doc: "access key of the S3 service; sandboxes get signed URLs only",
    schema: someText.optional(),
    secret: true,
  },
  s3SecretAccessKey: {
    env: "S3_SECRET_ACCESS_KEY",
    reaches: [],
    doc: "secret key of the S3 service",
    schema: someText.optional(),
    secret: true,
  },
  workspaceSync: {
    env: "WORKSPACE_SYNC",
    reaches: [],
    doc: "1: save the workspace to the session agent's object storage, and restore it into a new sandbox",
    schema: z.enum(["0", "1"], { error: "must be 0 or 1" }).transform((value) => value === "1"),
    fallback: () => "0",
  },
} satisfies SettingGroup

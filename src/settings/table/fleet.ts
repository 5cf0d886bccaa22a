/** Settings of `serve`: which sandboxes the sessions get, where they are recorded, and when they sleep. */
import { z } from "zod"
import { file, hostNames, seconds, someText, urlWith } from "../fields.ts"
import type { SettingGroup } from "../setting.ts"

const wholeNumber = z.coerce
  .number("must be a number")
  .int("must be a whole number")
  .min(0, "must not be negative")

export const fleetSettings = {
  sandboxProvider: {
    env: "SANDBOX_PROVIDER",
    reaches: [],
    flag: "provider",
    doc: "what runs the sandboxes of `serve`: local (processes on this machine), docker (Docker or Podman), kubernetes, modal, e2b, daytona, or noop (no sandboxes)",
    schema: someText,
    fallback: () => "local",
  },
  serveHost: {
    env: "SERVE_HOST",
    reaches: [],
    doc: "address that `serve` listens on, such as 0.0.0.0 behind a proxy with TLS",
    schema: z.string().regex(/^[0-9A-Fa-f.:]+$/, "must be an IP address"),
    fallback: () => "127.0.0.1",
  },
  serveNames: {
    env: "SERVE_NAMES",
    reaches: [],
    doc: "host names of `serve` besides this machine's, separated by commas; requests with others get 421",
    schema: hostNames.optional(),
  },
  hubUrl: {
    env: "HUB_URL",
    reaches: [],
    doc: "`serve` without a hub of its own: the address of the hub, for example the Worker's; needs FLEET_KEY",
    schema: urlWith("must be an http:// or https:// URL", ({ protocol }) =>
      /^https?:$/.test(protocol),
    ).optional(),
  },
  fleetKey: {
    env: "FLEET_KEY",
    reaches: [],
    doc: "signs the requests between `serve` and the hub of HUB_URL; both have the same",
    schema: z.string().min(32, "must have at least 32 characters").optional(),
    secret: true,
  },
  operatorTokenFile: {
    env: "OPERATOR_TOKEN_FILE",
    reaches: [],
    doc: "file with the operator's token of `serve`, at least 32 characters; replicas on several machines need the same one (default: a random token in the state directory)",
    schema: file.optional(),
  },
  databaseUrl: {
    env: "DATABASE_URL",
    reaches: [],
    doc: "PostgreSQL for many replicas of `serve`; SQLite in the state directory if it is not set",
    schema: urlWith("must be a postgres:// URL", ({ protocol }) =>
      /^postgres(ql)?:$/.test(protocol),
    ),
    readBy: ["serve"],
    secret: true,
  },
  sandboxIdleSeconds: {
    env: "SANDBOX_IDLE_SECONDS",
    reaches: [],
    doc: "a sandbox without work sleeps after this time",
    schema: seconds,
    fallback: () => "900",
  },
  sandboxIdleBufferSeconds: {
    env: "SANDBOX_IDLE_BUFFER_SECONDS",
    reaches: [],
    doc: "so much longer than SANDBOX_IDLE_SECONDS a cloud waits before it stops an idle sandbox itself",
    // A sandbox in use is kept alive every ten minutes, and once more if that fails.
    schema: seconds.min(900, "must be at least 900"),
    fallback: () => "1800",
  },
  sandboxMaxSeconds: {
    env: "SANDBOX_MAX_SECONDS",
    reaches: [],
    doc: "a provider with a limit (Modal) ends a sandbox after this time; its session is moved to a new one before",
    // The warm pool replaces a sandbox an hour before its end.
    schema: seconds.min(7200, "must be at least two hours (7200)"),
    fallback: () => "86400",
  },
  sandboxQuota: {
    env: "SANDBOX_QUOTA",
    reaches: [],
    doc: "how many sandboxes of one owner may run at the same time; 0: any number",
    schema: wholeNumber,
    fallback: () => "0",
  },
  sandboxCreatesPerHour: {
    env: "SANDBOX_CREATES_PER_HOUR",
    reaches: [],
    doc: "how many sandboxes one owner may start in an hour; 0: any number",
    schema: wholeNumber,
    fallback: () => "0",
  },
  sandboxCreatesPerDay: {
    env: "SANDBOX_CREATES_PER_DAY",
    reaches: [],
    doc: "how many sandboxes one owner may start in a day; 0: any number",
    schema: wholeNumber,
    fallback: () => "0",
  },
  sandboxMinutesPerDay: {
    env: "SANDBOX_MINUTES_PER_DAY",
    reaches: [],
    doc: "how many minutes the sandboxes of one owner may run on a day (UTC) before no other is started; 0: any number",
    schema: wholeNumber,
    fallback: () => "0",
  },
  sandboxPool: {
    env: "SANDBOX_POOL",
    reaches: [],
    doc: "how many sandboxes are started ahead for new threads and chats; 0: none",
    schema: z.coerce
      .number("must be a number")
      .int("must be a whole number")
      .min(0, "must not be negative")
      .max(100, "must be at most 100"),
    fallback: () => "0",
  },
  sandboxVolumeDays: {
    env: "SANDBOX_VOLUME_DAYS",
    reaches: [],
    doc: "the volume of an ended session is removed after this many days",
    schema: z.coerce
      .number("must be a number of days")
      .min(0, "must not be negative")
      .max(3650, "must be at most ten years"),
    fallback: () => "7",
  },
  sandboxHistoryDays: {
    env: "SANDBOX_HISTORY_DAYS",
    reaches: [],
    doc: "the record of a sandbox (when it ran, how long, why it ended) and that of a session without a thread are deleted this many days after their end",
    schema: z.coerce
      .number("must be a number of days")
      .min(0, "must not be negative")
      .max(3650, "must be at most ten years"),
    fallback: () => "90",
  },
  sandboxCostPerHour: {
    env: "SANDBOX_COST_PER_HOUR",
    reaches: [],
    doc: "the price of an hour of a running sandbox, such as 0.12; records of sandboxes then have a cost, without a currency",
    schema: z.coerce
      .number("must be a number")
      .min(0, "must not be negative")
      .max(1_000_000, "must be at most 1000000")
      .optional(),
  },
  whisperVolume: {
    env: "WHISPER_VOLUME",
    reaches: [],
    doc: "volume with speech models, mounted read-only at /models/whisper, such as whisper-models",
    schema: z
      .string()
      .regex(/^[a-z0-9][a-z0-9-]{0,62}$/, "must be the name of a volume")
      .optional(),
  },
  sandboxPausedSeconds: {
    env: "SANDBOX_PAUSED_SECONDS",
    reaches: [],
    doc: "a paused sandbox is saved to disk and ended after this time; 0: never",
    schema: seconds,
    fallback: () => "3600",
  },
  sandboxPausedDays: {
    env: "SANDBOX_PAUSED_DAYS",
    reaches: [],
    doc: "a sandbox that the provider stores with its memory (E2B) is saved and ended after this many days; 0: never",
    schema: z.coerce
      .number("must be a number of days")
      .min(0, "must not be negative")
      .max(3650, "must be at most ten years"),
    fallback: () => "30",
  },
  snapshotMinimumVersion: {
    env: "SNAPSHOT_MINIMUM_VERSION",
    reaches: [],
    doc: "snapshots of an older version of this program are not restored",
    schema: z.string().regex(/^\d+(\.\d+)*$/, "must be a version such as 0.2.0"),
    fallback: () => "0",
  },
} satisfies SettingGroup

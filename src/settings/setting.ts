/** What a row of the settings table is made of. */
import type { z } from "zod"
import type { CommandName } from "./commands.ts"
import type { Destination } from "./reaches.ts"

export interface Setting<Schema extends z.ZodType = z.ZodType> {
  /** The environment variable. */
  readonly env: string
  /** The flag without its dashes, for the few settings that have one. */
  readonly flag?: string
  /** The processes besides this one that may receive the variable. */
  readonly reaches: readonly Destination[]
  /** In a sandbox another one sets it, so that it has no effect there to give it to `serve` or with a session's variables. */
  readonly setBy?: "fleet" | "session" | "image"
  /** One line for `--help`. */
  readonly doc: string
  readonly schema: Schema
  /** Used when neither flag nor variable is set. An empty text leaves the setting unset. */
  readonly fallback?: (context: Context) => string
  readonly requiredBy?: readonly CommandName[]
  /** Only these commands read it, for variables that other programs use, too. Others neither check nor get its value. */
  readonly readBy?: readonly CommandName[]
  /** The value is hidden in logs and in printed settings. */
  readonly secret?: true
}

export type SettingGroup = Readonly<Record<string, Setting>>

export interface Context {
  readonly command: CommandName
  readonly env: Environment
  readonly cwd: string
}

export type Environment = Readonly<Record<string, string | undefined>>

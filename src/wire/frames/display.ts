/** The files of `output/display`, which the agent shows to the user, and their limits. Both sides check the limits. */
import { z } from "zod"

/** Where the agent puts files for the user, below its working directory. */
export const DISPLAY_FOLDER = "output/display"

/** One frame must stay below the 32 MiB that a socket accepts, and base64 adds a third. */
export const displayLimits = {
  files: 20,
  fileBytes: 5 * 1024 * 1024,
  frameBytes: 16 * 1024 * 1024,
  pathCharacters: 500,
} as const

const path = z.string().min(1).max(displayLimits.pathCharacters)

export const displayFile = z.object({
  /** Below the folder. */
  path,
  sha256: z.string().regex(/^[0-9a-f]{64}$/, "must be a SHA-256 in hexadecimal"),
  /** The content in base64. */
  data: z.string().max(Math.ceil(displayLimits.fileBytes / 3) * 4),
})

export const omittedFile = z.object({ path, reason: z.string().max(200) })

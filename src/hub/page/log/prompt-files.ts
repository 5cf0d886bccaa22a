/** The files of a prompt, as the hub stores them with it: names and types, not their bytes. Pure. */
import type { MessageWithParts } from "../../../wire/clients/conversation.ts"

export interface PromptFile {
  readonly mime?: string | undefined
  readonly filename?: string | undefined
  readonly artifact?: string | undefined
}

export const filesOf = ({ parts }: MessageWithParts): readonly PromptFile[] =>
  parts.flatMap(({ kind, data }) => {
    const files =
      kind === "extra" ? (data as { readonly files?: unknown } | null)?.files : undefined
    return Array.isArray(files) ? (files as readonly PromptFile[]) : []
  })

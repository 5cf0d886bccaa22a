/** Plain data types of OpenCode's API that other components use. */

export interface PromptBody {
  readonly messageID: string
  readonly model?: { readonly providerID: string; readonly modelID: string }
  readonly agent?: string
  readonly system?: string
  readonly tools?: Readonly<Record<string, boolean>>
  readonly parts: readonly PromptPart[]
}

export type PromptPart =
  | { readonly type: "text"; readonly id: string; readonly text: string }
  | {
      readonly type: "file"
      readonly id: string
      readonly mime: string
      readonly url: string
      readonly filename?: string
    }

export interface ProviderModels {
  readonly provider: string
  readonly models: readonly {
    readonly id: string
    readonly name: string
    readonly context?: number | undefined
    readonly inputs?: readonly ModelInput[] | undefined
    readonly cost?: { readonly input: number; readonly output: number } | undefined
  }[]
}

export type ModelInput = "text" | "audio" | "image" | "video" | "pdf"

/** Creates ids in OpenCode's format, in ascending order. */
export type MintId = (prefix: "msg" | "prt") => string

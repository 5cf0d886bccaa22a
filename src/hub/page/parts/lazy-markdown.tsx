/**
 * Texts of the agent. What reads Markdown is a third of the page, so it is loaded beside the page's first script; the log
 * waits for it, so that no text changes its shape.
 */
import { computed, signal } from "@preact/signals"
import type { ComponentType } from "preact"
import { hasNewVersion } from "../client/new-version.ts"

export interface MarkdownProps {
  readonly text: string
  readonly isGrowing?: boolean
}

const loaded = signal<ComponentType<MarkdownProps> | undefined>(undefined)

export const isMarkdownLoaded = computed(() => loaded.value !== undefined)

const Plain = ({ text }: MarkdownProps) => <div class="prose is-plain">{text}</div>

export const loadMarkdown = async (): Promise<void> => {
  try {
    loaded.value = (await import("./markdown.tsx")).Markdown
  } catch {
    // The server has another version of the page: its words can be read, and a reload shows them well.
    loaded.value = Plain
    hasNewVersion.value = true
  }
}

export const Markdown = (props: MarkdownProps) => {
  const Component = loaded.value
  return Component ? <Component {...props} /> : null
}

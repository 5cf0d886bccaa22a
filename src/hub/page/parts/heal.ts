/** Closes half-written Markdown. What does it is loaded when the first text streams; until then the text stays as it is. */
import { signal } from "@preact/signals"

const healer = signal<((text: string) => string) | undefined>(undefined)
const isLoading = signal(false)

const load = async () => {
  const { default: remend } = await import("remend")
  healer.value = remend
}

export const heal = (text: string): string => {
  if (healer.value) return healer.value(text)
  if (!isLoading.peek()) {
    isLoading.value = true
    void load()
  }
  return text
}

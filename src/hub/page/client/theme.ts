/** Light, dark, or as the system says. */
import { effect, signal } from "@preact/signals"
import { readStored, writeStored } from "./storage.ts"

export type Theme = "auto" | "light" | "dark"

const parse = (text: string | undefined): Theme =>
  text === "light" || text === "dark" ? text : "auto"

export const theme = signal<Theme>(parse(readStored("theme")))

export const setTheme = (chosen: Theme): void => {
  theme.value = chosen
  writeStored("theme", chosen === "auto" ? undefined : chosen)
}

export const isDark = (): boolean =>
  theme.value === "dark" ||
  (theme.value === "auto" && matchMedia("(prefers-color-scheme: dark)").matches)

export const watchTheme = (): void => {
  effect(() => {
    if (theme.value === "auto") delete document.documentElement.dataset["theme"]
    else document.documentElement.dataset["theme"] = theme.value
  })
}

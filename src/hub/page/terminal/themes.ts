/** The colours of the terminal, light and dark. */
import type { ITheme } from "@xterm/xterm"

export const themes: Readonly<Record<"light" | "dark", ITheme>> = {
  light: {
    background: "#ffffff",
    foreground: "#1b2225",
    cursor: "#1b2225",
    selectionBackground: "#dceef0",
    black: "#1b2225",
    red: "#ac2f24",
    green: "#1c6f45",
    yellow: "#855400",
    blue: "#1a5c94",
    magenta: "#8a3b76",
    cyan: "#0c6574",
    white: "#5c6366",
    brightBlack: "#5c6366",
    brightWhite: "#1b2225",
  },
  dark: {
    background: "#0e1315",
    foreground: "#e5e9ea",
    cursor: "#e5e9ea",
    selectionBackground: "#14343b",
    black: "#2a3339",
    red: "#f2938a",
    green: "#62c593",
    yellow: "#e2b45c",
    blue: "#86bdec",
    magenta: "#d9a0cd",
    cyan: "#67c5d1",
    white: "#e5e9ea",
    brightBlack: "#95a0a5",
    brightWhite: "#ffffff",
  },
}

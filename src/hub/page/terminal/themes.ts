/** The colours of the terminal, light and dark. */
import type { ITheme } from "@xterm/xterm"

export const themes: Readonly<Record<"light" | "dark", ITheme>> = {
  light: {
    background: "#ffffff",
    foreground: "#1d2326",
    cursor: "#1d2326",
    selectionBackground: "#cfe3dd",
    black: "#1d2326",
    red: "#b3261e",
    green: "#1d6f42",
    yellow: "#8a5a00",
    blue: "#1f5fa8",
    magenta: "#8b3d88",
    cyan: "#0f6d73",
    white: "#5a6469",
    brightBlack: "#5a6469",
    brightWhite: "#1d2326",
  },
  dark: {
    background: "#12171a",
    foreground: "#e6eaec",
    cursor: "#e6eaec",
    selectionBackground: "#2f4a44",
    black: "#2a3236",
    red: "#ff8a80",
    green: "#7fd6a4",
    yellow: "#e8c268",
    blue: "#8ab8f0",
    magenta: "#d9a0d6",
    cyan: "#7fd0d6",
    white: "#e6eaec",
    brightBlack: "#9aa5aa",
    brightWhite: "#ffffff",
  },
}

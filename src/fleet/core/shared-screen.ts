/** The screen's programs have fixed ports of loopback and no password: sandboxes in one network would show one person's screen to all. */

/** `services`: the value of `SANDPIPER_SERVICES`. Returns it without the screen. */
export const withoutScreen = (services: string): string =>
  services === "all"
    ? "vscode,ttyd"
    : services
        .split(",")
        .filter((name) => name.trim() !== "vnc")
        .join(",") || "none"

/** Names of keys as this system writes them. */

const isMac = (): boolean => /mac|iphone|ipad/i.test(navigator.platform)

/** Mod is Command on a Mac and Control elsewhere. */
export const isMod = (event: KeyboardEvent): boolean => (isMac() ? event.metaKey : event.ctrlKey)

export const modKey = (key: string): string => (isMac() ? `⌘${key}` : `Ctrl ${key}`)

/** Names from the sandbox as people may read them: characters that reorder or hide text are shown as their code. */

const HIDDEN =
  /[\u0000-\u0008\u000B-\u001F\u007F-\u009F\u200B-\u200F\u202A-\u202E\u2060-\u2069\uFEFF]/g

export const visible = (text: string): string =>
  text.replace(
    HIDDEN,
    (character) =>
      `\\u${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`,
  )

/** A word of a shell command: what is in it is never read as a command. */
export const shellQuoted = (word: string): string => `'${word.replaceAll("'", `'\\''`)}'`

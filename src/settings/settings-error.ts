/** A flag or a setting that is missing or malformed. The message names it and what it must be. Exit code 2. */
export class SettingsError extends Error {
  override readonly name = "SettingsError"
}

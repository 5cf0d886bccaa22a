/**
 * Settings for one run of git as variables of its environment. `git -c` ends a setting's name at the first `=`, which may be a
 * part of the name: `filter.a=b.clean` would stay as the repository has set it.
 */

export type GitSetting = readonly [name: string, value: string]

/** `environment`: variables of the same run, whose settings stay. Later settings replace earlier ones. */
export const gitSettings = (
  settings: readonly GitSetting[],
  environment: Readonly<Record<string, string | undefined>> = {},
): Record<string, string> => {
  const given = Number(environment["GIT_CONFIG_COUNT"] ?? 0)
  const first = Number.isInteger(given) && given > 0 ? given : 0
  return Object.fromEntries([
    ["GIT_CONFIG_COUNT", String(first + settings.length)],
    ...settings.flatMap(([name, value], index) => [
      [`GIT_CONFIG_KEY_${first + index}`, name],
      [`GIT_CONFIG_VALUE_${first + index}`, value],
    ]),
  ])
}

/** Versions of the runtime in a sandbox: the key of a base snapshot, and the order of versions. */

/** The key of a base snapshot: equal keys mean equal content. `digest` is SHA-256. */
export const versionKey = (
  files: readonly { readonly path: string; readonly digest: string }[],
  imageBuildVersion: string,
  digest: (text: string) => string,
): string => {
  const lines = files.map((file) => `${file.path}\0${file.digest}`).toSorted()
  return digest([imageBuildVersion, ...lines].join("\n"))
}

const numbersOf = (version: string): readonly number[] =>
  (/^\d+(?:\.\d+)*/.exec(version)?.[0] ?? "0").split(".").map(Number)

/** A snapshot without a version is older than every minimum. */
export const isAtLeast = (version: string | undefined, minimum: string | undefined): boolean => {
  if (minimum === undefined) return true
  if (version === undefined) return false
  const have = numbersOf(version)
  const need = numbersOf(minimum)
  for (let place = 0; place < Math.max(have.length, need.length); place++) {
    const difference = (have[place] ?? 0) - (need[place] ?? 0)
    if (difference !== 0) return difference > 0
  }
  return true
}

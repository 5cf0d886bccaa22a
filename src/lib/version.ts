/** Which build this is: the version of package.json and, in a compiled binary, the commit it was made from. */
import manifest from "../../package.json"

/** Put in by the build; absent when run from source. */
declare const BUILD_COMMIT: string | undefined

export const version: string = manifest.version

export const commit: string = typeof BUILD_COMMIT === "string" ? BUILD_COMMIT : "source"

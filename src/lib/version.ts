/** The version in package.json and, in a compiled binary, the commit of the build. */
import manifest from "../../package.json"

/** Defined by `npm run build`; absent when run from source. */
declare const BUILD_COMMIT: string | undefined

export const version: string = manifest.version

export const commit: string = typeof BUILD_COMMIT === "string" ? BUILD_COMMIT : "source"

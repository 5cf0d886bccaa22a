/** The systems that the program runs on: it reads /proc, and OpenCode is packaged for these processors. */

const SUPPORTED = ["linux/x64", "linux/arm64"]

/** One sentence that says what works instead; undefined on a supported system. */
export const unsupportedSystem = (platform: string, arch: string): string | undefined =>
  SUPPORTED.includes(`${platform}/${arch}`)
    ? undefined
    : `sandpiper does not run on ${platform}/${arch}, only on ${SUPPORTED.join(" and ")}: use the image (docker build -t sandpiper . && docker run --rm -it sandpiper up)`

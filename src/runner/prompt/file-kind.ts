/** Classifies an attachment by its MIME type and name; text is also checked by its bytes. Pure. */

export type FileKind = "image" | "pdf" | "audio" | "text" | "other"

/** The image types that models accept. */
const IMAGES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"])
const TEXTS =
  /^(?:text\/|application\/(?:json|xml|yaml|x-yaml|toml|javascript|typescript|x-sh|sql|graphql)|.*\+(?:json|xml)$)/
const TEXT_NAMES =
  /\.(?:txt|md|csv|tsv|log|json|jsonl|ya?ml|toml|ini|xml|html?|css|svg|[cm]?[jt]sx?|py|rb|go|rs|java|kt|swift|c|h|cc|cpp|hpp|cs|php|sh|sql|diff|patch)$/i

export const kindOf = (mime: string, filename: string, bytes: Uint8Array): FileKind => {
  const type = mime.split(";")[0]?.trim().toLowerCase() ?? ""
  if (IMAGES.has(type)) return "image"
  if (type === "application/pdf" || startsWith(bytes, "%PDF-")) return "pdf"
  if (type.startsWith("audio/")) return "audio"
  if ((TEXTS.test(type) || TEXT_NAMES.test(filename)) && isText(bytes)) return "text"
  return "other"
}

const startsWith = (bytes: Uint8Array, prefix: string): boolean =>
  new TextDecoder("latin1").decode(bytes.subarray(0, prefix.length)) === prefix

/** A binary file that is declared as text would only fill the model's context. */
const isText = (bytes: Uint8Array): boolean => {
  const sample = bytes.subarray(0, 4096)
  if (sample.includes(0)) return false
  const text = new TextDecoder().decode(sample)
  const broken = text.length - text.replaceAll("\uFFFD", "").length
  return broken <= text.length * 0.05
}

/** A file name without path separators and control characters, so that the file stays in its folder. */
export const safeName = (filename: string | undefined, index: number): string => {
  const base = (filename ?? "").split(/[/\\]/).at(-1) ?? ""
  const clean = base
    .replaceAll(/[^\p{L}\p{N}._ -]/gu, "_")
    .replace(/^\.+/, "")
    .trim()
    .slice(-100)
  return clean === "" ? `attachment-${index + 1}` : clean
}

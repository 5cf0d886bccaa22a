/** A file that is embedded in the binary; the import is its path. */
declare module "*.ndjson" {
  const path: string
  export default path
}

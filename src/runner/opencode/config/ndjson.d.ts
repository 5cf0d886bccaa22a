/** A file that the program carries; the import gives its path. */
declare module "*.ndjson" {
  const path: string
  export default path
}

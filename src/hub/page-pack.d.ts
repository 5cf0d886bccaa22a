/** The pack of the page is imported as a file: its path, inside the binary or on the disk. */
declare module "*.pack" {
  const path: string
  export default path
}

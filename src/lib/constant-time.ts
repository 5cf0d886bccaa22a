/** Compares secrets in a time that depends only on the length of the expected text, not on where the texts differ. */

export const sameText = (given: string, expected: string): boolean => {
  let difference = given.length ^ expected.length
  for (let index = 0; index < expected.length; index += 1) {
    difference |= given.charCodeAt(index % (given.length || 1)) ^ expected.charCodeAt(index)
  }
  return difference === 0
}

/** The encryption keys of the Bun host: from HUB_ENCRYPTION_KEY, or from a key file that the host makes itself. */
import { type Keyring, readKeyring } from "../../access/encrypt.ts"
import { ensureKeyFile, newKey, replaceKeyFile } from "../../access/key-file.ts"

export interface HostKeyring {
  readonly current: () => Keyring
  /**
   * Makes a new first key, unless the keys come from HUB_ENCRYPTION_KEY, and calls `encryptAgain`, which must encrypt every
   * value with it. The old key is removed afterwards; after a crash in between the file holds both.
   */
  readonly rotate: <Result>(encryptAgain: () => Promise<Result>) => Promise<Result>
}

export const openHostKeyring = (given: string | undefined, file: string): HostKeyring => {
  let current = readKeyring(given ?? ensureKeyFile(file))
  return {
    current: () => current,
    rotate: async (encryptAgain) => {
      if (given !== undefined) return encryptAgain()
      const added = newKey()
      const both = `${added},${ensureKeyFile(file)}`
      replaceKeyFile(file, both)
      current = readKeyring(both)
      const result = await encryptAgain()
      replaceKeyFile(file, added)
      current = readKeyring(added)
      return result
    },
  }
}

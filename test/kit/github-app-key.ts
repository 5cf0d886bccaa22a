/** A key pair of a GitHub App, made for one test. */
import { exportPKCS8, generateKeyPair } from "jose"

export interface AppKey {
  readonly privatePem: string
  readonly publicKey: CryptoKey
}

export const makeAppKey = async (): Promise<AppKey> => {
  const { privateKey, publicKey } = await generateKeyPair("RS256", { extractable: true })
  return { privatePem: await exportPKCS8(privateKey), publicKey }
}

/** A key and a certificate that is signed with it, made for one test. Clients must not check who has signed it. */
import { generateKeyPairSync, sign } from "node:crypto"

const der = (tag: number, ...parts: readonly Uint8Array[]): Buffer => {
  const content = Buffer.concat(parts)
  const { length } = content
  const size =
    length < 0x80
      ? [length]
      : length < 0x100
        ? [0x81, length]
        : [0x82, Math.floor(length / 0x100), length % 0x100]
  return Buffer.concat([Buffer.from([tag, ...size]), content])
}
const sequence = (...parts: readonly Uint8Array[]) => der(0x30, ...parts)
const text = (tag: number, value: string) => der(tag, Buffer.from(value))
const object = (hex: string) => der(0x06, Buffer.from(hex, "hex"))

const COMMON_NAME = object("550403")
const ECDSA_WITH_SHA256 = sequence(object("2a8648ce3d040302"))
const UTF8 = 0x0c
const UTC_TIME = 0x17
const nameOf = (host: string) => sequence(der(0x31, sequence(COMMON_NAME, text(UTF8, host))))

export const makeCertificate = (host: string): { readonly key: string; readonly cert: string } => {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" })
  const body = sequence(
    der(0x02, Buffer.from([1])),
    ECDSA_WITH_SHA256,
    nameOf(host),
    sequence(text(UTC_TIME, "200101000000Z"), text(UTC_TIME, "490101000000Z")),
    nameOf(host),
    publicKey.export({ type: "spki", format: "der" }),
  )
  const signature = Buffer.concat([Buffer.from([0]), sign("sha256", body, privateKey)])
  const certificate = sequence(body, ECDSA_WITH_SHA256, der(0x03, signature))
  const lines = certificate.toString("base64").replaceAll(/.{64}/g, "$&\n")
  return {
    key: privateKey.export({ type: "pkcs8", format: "pem" }),
    cert: `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`,
  }
}

/** Reads the JUnit report that `bun test` writes. Pure. */

export interface TestResult {
  /** With the names of its groups. */
  readonly name: string
  readonly ms: number
  readonly state: "pass" | "fail" | "skip"
  readonly assertions: number
  /** Of a failed test. */
  readonly message: string
}

const ENTITIES: Readonly<Record<string, string>> = {
  amp: "&",
  lt: "<",
  gt: ">",
  quot: '"',
  apos: "'",
}

const unescape = (text: string): string =>
  text.replaceAll(/&(#x?[\da-fA-F]+|\w+);/g, (whole, entity: string) => {
    if (!entity.startsWith("#")) return ENTITIES[entity] ?? whole
    const isHex = entity[1] === "x"
    return String.fromCodePoint(Number.parseInt(entity.slice(isHex ? 2 : 1), isHex ? 16 : 10))
  })

const attribute = (tag: string, name: string): string =>
  unescape(new RegExp(` ${name}="([^"]*)"`).exec(tag)?.[1] ?? "")

export const readJunit = (xml: string): readonly TestResult[] =>
  [...xml.matchAll(/<testcase\b([^>]*?)(?:\/>|>(.*?)<\/testcase>)/gs)].map(
    ([, tag = "", body = ""]) => {
      const group = attribute(tag, "classname")
      const failure = /<failure\b[^>]*/.exec(body)?.[0]
      return {
        name: `${group === "" ? "" : `${group} > `}${attribute(tag, "name")}`,
        ms: Number(attribute(tag, "time")) * 1000,
        state: failure ? "fail" : body.includes("<skipped") ? "skip" : "pass",
        assertions: Number(attribute(tag, "assertions")),
        message: failure ? attribute(failure, "message") || "failed" : "",
      }
    },
  )

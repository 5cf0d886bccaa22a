/** Rules for repository addresses and git names. */
import { describe, expect, test } from "bun:test"
import {
  hideCredentials,
  isGitName,
  isGitUrl,
  repositoryName,
  webOrigin,
  withoutCredentials,
} from "../../src/lib/git-url.ts"

describe("repository addresses", () => {
  test.each([
    "https://a.example/x.git",
    "https://me:secret@a.example/x",
    "ssh://git@a.example:2222/x",
    "file:///srv/x.git",
    "git@a.example:team/x.git",
    "http://127.0.0.1:3000/x",
    "http://localhost/x",
  ])("the address %s is accepted", (url) => {
    expect(isGitUrl(url)).toBe(true)
  })

  test.each([
    "",
    "http://a.example/x",
    "ext::sh -c id",
    "git://a.example/x",
    "-u@a.example:x y",
    "git@a.example:-oProxyCommand=id",
    "https://a.example/x y",
    "/srv/x",
    "--upload-pack=id",
  ])("the address '%s' is rejected", (url) => {
    expect(isGitUrl(url)).toBe(false)
  })
})

describe("branches, tags and commits", () => {
  test.each(["main", "feature/x", "v1.0", "0123abc"])("the name %s is accepted", (name) => {
    expect(isGitName(name)).toBe(true)
  })

  test.each(["", "-x", "--upload-pack=id", "a..b", "a b", "a:b", "a\nb"])(
    "the name '%s' is rejected",
    (name) => {
      expect(isGitName(name)).toBe(false)
    },
  )
})

describe("credentials in addresses", () => {
  test("the address without credentials has neither user nor password", () => {
    expect(withoutCredentials("https://me:secret@a.example/x")).toBe("https://a.example/x")
  })

  test("an ssh address keeps its user, which is not a secret", () => {
    expect(withoutCredentials("git@a.example:x")).toBe("git@a.example:x")
    expect(withoutCredentials("ssh://git@a.example/x")).toBe("ssh://git@a.example/x")
  })

  test("credentials of every address in a text are hidden", () => {
    const text = "from https://me:one@a.example/x to https://two@b.example/y"
    expect(hideCredentials(text)).toBe("from https://a.example/x to https://b.example/y")
    expect(hideCredentials("https://me@a.example", "[redacted]@")).toBe(
      "https://[redacted]@a.example",
    )
  })

  test("only web addresses have an origin that may receive a token", () => {
    expect(webOrigin("https://me@a.example:8443/x")).toBe("https://a.example:8443")
    expect(webOrigin("ssh://git@a.example/x")).toBeUndefined()
    expect(webOrigin("git@a.example:x")).toBeUndefined()
  })
})

test.each([
  ["https://a.example/x/project.git", "project"],
  ["git@a.example:team/project", "project"],
  ["https://a.example/x/project/", "project"],
  ["https://a.example/x/..", "repository"],
  ["https://a.example/x/%2e%2e%2f", "2e-2e-2f"],
])("the repository %s gets the directory name %s", (url, name) => {
  expect(repositoryName(url)).toBe(name)
})

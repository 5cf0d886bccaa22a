/** Which host a request is for, and the origins that follow from it. */
import { expect, test } from "bun:test"
import * as fc from "fast-check"
import {
  boxOrigin,
  frameSources,
  hostKind,
  originFor,
  type PageOrigins,
} from "../../../src/runner/gateway/hosts.ts"

const local: PageOrigins = {
  page: "http://sandpiper.localhost",
  tunnels: "http://*--box.sandpiper.localhost",
}
const remote: PageOrigins = {
  page: "https://page.example.com",
  tunnels: "https://*--box.example.net",
  publicUrl: "https://gateway.example.org/",
}

test("the page's host is its own name and, on this machine, localhost, with any port", () => {
  for (const host of [
    "sandpiper.localhost:9000",
    "SANDPIPER.localhost",
    "localhost:1",
    "localhost",
  ])
    expect(hostKind(host, local)).toBe("page")
  expect(hostKind("page.example.com", remote)).toBe("page")
  expect(hostKind("localhost:9000", remote)).toBe("unknown")
})

test("the box is its own name, every address, the public address, and a request without a host", () => {
  for (const host of [
    "box.sandpiper.localhost:9000",
    "127.0.0.1:9000",
    "[::1]:9000",
    "10.0.0.7",
    "",
  ])
    expect(hostKind(host, local)).toBe("box")
  expect(hostKind("gateway.example.org", remote)).toBe("box")
})

test("a tunnel is a name before the box's name, and any other name is unknown", () => {
  expect(hostKind("app--box.sandpiper.localhost:9000", local)).toBe("tunnel")
  for (const host of [
    "evil.example",
    "app--box.sandpiper.localhost.evil.example",
    "xsandpiper.localhost",
    "a.sandpiper.localhost",
    "tunnel.localhost",
    "127.0.0.1.evil.example",
    "sandpiper.localhost.",
  ])
    expect(hostKind(host, local)).toBe("unknown")
})

test("no name is both the page and the sandbox, and a name outside both domains is unknown", () => {
  fc.assert(
    fc.property(fc.domain(), fc.option(fc.integer({ min: 1, max: 65_535 })), (name, port) => {
      const host = port === null ? name : `${name}:${port}`
      expect(hostKind(host, local)).toBe("unknown")
      expect(hostKind(`${name}--box.sandpiper.localhost`, local)).toBe("tunnel")
    }),
  )
})

test("an origin on this machine gets the port that the client has used, another one stays as configured", () => {
  expect(originFor(local.page, "sandpiper.localhost:9000")).toBe("http://sandpiper.localhost:9000")
  expect(originFor(remote.page, "page.example.com:443")).toBe("https://page.example.com")
  expect(boxOrigin(local.tunnels)).toBe("http://box.sandpiper.localhost")
})

test("the page may frame the box and the tunnels, and nothing of its own host", () => {
  expect(frameSources(local, "sandpiper.localhost:9000")).toEqual([
    "http://box.sandpiper.localhost:9000",
    "http://*.sandpiper.localhost:9000",
    "http://127.0.0.1:9000",
  ])
  expect(frameSources(remote, "page.example.com")).toEqual([
    "https://box.example.net",
    "https://*.example.net",
  ])
})

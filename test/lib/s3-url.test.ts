/** Presigned URLs, and the S3 server of the tests: checked against two clients that know neither. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { AwsClient } from "aws4fetch"
import { presign, type S3Bucket, type S3Method } from "../../src/lib/s3-url.ts"
import { type S3Server, startS3Server } from "../kit/s3-server.ts"
import { failureOf } from "../kit/failure-of.ts"

let server: S3Server
let bucket: S3Bucket
beforeAll(() => {
  server = startS3Server()
  bucket = { ...server.credentials, ...server }
})
afterAll(() => server.stop())

const url = (method: S3Method, key: string, more: { now?: number; expiresSeconds?: number } = {}) =>
  presign(bucket, { method, key, now: Date.now(), expiresSeconds: 3600, ...more })

const AWKWARD = "a b/ü!'()*~+&=?#%.txt"

describe("presigned URLs", () => {
  test("a URL allows its method on its object", async () => {
    await fetch(url("PUT", AWKWARD), { method: "PUT", body: "content" })
    expect(new TextDecoder().decode(server.objects.get(AWKWARD))).toBe("content")
    expect(await (await fetch(url("GET", AWKWARD))).text()).toBe("content")
    expect((await fetch(url("HEAD", AWKWARD), { method: "HEAD" })).status).toBe(200)
    expect((await fetch(url("DELETE", AWKWARD), { method: "DELETE" })).status).toBe(204)
    expect((await fetch(url("GET", AWKWARD))).status).toBe(404)
  })

  test("another method, another object, a wrong secret and an expired URL are refused", async () => {
    const put = url("PUT", "mine")
    expect((await fetch(put)).status).toBe(403)
    const other = put.replace("/mine?", "/theirs?")
    expect((await fetch(other, { method: "PUT", body: "x" })).status).toBe(403)
    const wrong = presign(
      { ...bucket, secretAccessKey: "wrong" },
      { method: "GET", key: "mine", now: Date.now(), expiresSeconds: 60 },
    )
    expect(await (await fetch(wrong)).text()).toContain("SignatureDoesNotMatch")
    const old = url("GET", "mine", { now: Date.now() - 61_000, expiresSeconds: 60 })
    expect((await fetch(old)).status).toBe(403)
    expect(server.objects.size).toBe(0)
  })

  test("aws4fetch signs the same request with the same signature", async () => {
    const now = Date.UTC(2026, 0, 2, 3, 4, 5)
    const client = new AwsClient({ ...server.credentials, service: "s3", region: server.region })
    for (const key of ["plain.txt", "deep/er/file", AWKWARD]) {
      const ours = new URL(url("PUT", key, { now }))
      const unsigned = new URL(`${ours.origin}${ours.pathname}?X-Amz-Expires=3600`)
      const theirs = await client.sign(unsigned, {
        method: "PUT",
        aws: { signQuery: true, datetime: "20260102T030405Z" },
      })
      const signature = new URL(theirs.url).searchParams.get("X-Amz-Signature")
      expect(ours.searchParams.get("X-Amz-Signature")).toBe(String(signature))
    }
  })
})

describe("the S3 server of the tests", () => {
  test("it accepts Bun's client and refuses it with a wrong secret", async () => {
    const options = { endpoint: server.endpoint, region: server.region, bucket: server.bucket }
    const client = new Bun.S3Client({ ...options, ...server.credentials })
    await client.write("by-bun.txt", "hello")
    expect(await client.file("by-bun.txt").text()).toBe("hello")
    expect((await client.file("by-bun.txt").stat()).size).toBe(5)
    expect(await client.file("by-bun.txt").slice(1, 3).text()).toBe("el")
    expect((await client.list({ prefix: "by-" })).contents?.map(({ key }) => key)).toEqual([
      "by-bun.txt",
    ])
    await client.delete("by-bun.txt")
    expect(await client.exists("by-bun.txt")).toBe(false)
    const other = new Bun.S3Client({
      ...options,
      ...server.credentials,
      secretAccessKey: "another secret",
    })
    expect(await failureOf(other.write("x", "y"))).not.toBe("no failure")
  })

  test("it accepts aws4fetch with a signature in the headers", async () => {
    const client = new AwsClient({ ...server.credentials, service: "s3", region: server.region })
    const address = `${server.endpoint}/${server.bucket}/by-aws4fetch`
    expect((await client.fetch(address, { method: "PUT", body: "hello" })).status).toBe(200)
    expect(await (await client.fetch(address)).text()).toBe("hello")
    expect((await fetch(address)).status).toBe(403)
  })
})

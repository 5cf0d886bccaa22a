/** Presigned URLs, and the S3 server of the tests: checked against three clients that know neither. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test"
import {
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  paginateListObjectsV2,
  PutObjectCommand,
  S3Client,
} from "@aws-sdk/client-s3"
import { AwsClient } from "aws4fetch"
import { createHash } from "node:crypto"
import { presign, type S3Bucket, type S3Method } from "../../src/lib/s3-url.ts"
import { type S3Server, startS3Server } from "../kit/s3-server.ts"
import { failureOf } from "../kit/failure-of.ts"

let server: S3Server
let bucket: S3Bucket
beforeAll(() => {
  server = startS3Server()
  bucket = { ...server.credentials, ...server }
})
afterEach(() => server.objects.clear())
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

  test("a list of a prefix is signed as aws4fetch signs it, and another prefix is refused", async () => {
    const now = Date.UTC(2026, 0, 2, 3, 4, 5)
    const query = { "list-type": "2", prefix: "a b/ü/", "start-after": "a b/ü/k%20" }
    const ours = new URL(
      presign(bucket, { method: "GET", key: "", query, now, expiresSeconds: 3600 }),
    )
    const unsigned = new URL(`${ours.origin}${ours.pathname}?X-Amz-Expires=3600`)
    for (const [name, value] of Object.entries(query)) unsigned.searchParams.set(name, value)
    const client = new AwsClient({ ...server.credentials, service: "s3", region: server.region })
    const theirs = await client.sign(unsigned, {
      aws: { signQuery: true, datetime: "20260102T030405Z" },
    })
    const signature = new URL(theirs.url).searchParams.get("X-Amz-Signature")
    expect(ours.searchParams.get("X-Amz-Signature")).toBe(String(signature))
    const own = presign(bucket, {
      method: "GET",
      key: "",
      query: { "list-type": "2", prefix: "mine/" },
      now: Date.now(),
      expiresSeconds: 60,
    })
    expect((await fetch(own)).status).toBe(200)
    expect((await fetch(own.replace("prefix=mine", "prefix=theirs"))).status).toBe(403)
  })
})

describe("the S3 server of the tests", () => {
  test("the S3 server of the tests accepts Bun's client and refuses it with a wrong secret", async () => {
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

  test("the S3 server of the tests accepts aws4fetch with a signature in the headers", async () => {
    const client = new AwsClient({ ...server.credentials, service: "s3", region: server.region })
    const address = `${server.endpoint}/${server.bucket}/by-aws4fetch`
    expect((await client.fetch(address, { method: "PUT", body: "hello" })).status).toBe(200)
    expect(await (await client.fetch(address)).text()).toBe("hello")
    expect((await fetch(address)).status).toBe(403)
  })

  test("the client of the AWS SDK stores, reads, lists in pages and deletes, and is refused with a wrong secret", async () => {
    const place = {
      endpoint: server.endpoint,
      region: server.region,
      forcePathStyle: true,
      maxAttempts: 1,
    }
    const client = new S3Client({ ...place, credentials: server.credentials })
    const { bucket: Bucket } = server
    const keys = ["sdk/a & b", "sdk/ü#?.txt", "sdk/z"]
    for (const Key of keys) {
      await client.send(
        new PutObjectCommand({ Bucket, Key, Body: `of ${Key}`, ContentType: "text/plain" }),
      )
    }
    const read = await client.send(new GetObjectCommand({ Bucket, Key: "sdk/a & b" }))
    expect([await read.Body?.transformToString(), read.ContentType]).toEqual([
      "of sdk/a & b",
      "text/plain",
    ])
    const part = await client.send(
      new GetObjectCommand({ Bucket, Key: "sdk/z", Range: "bytes=3-5" }),
    )
    expect(await part.Body?.transformToString()).toBe("sdk")
    const head = await client.send(new HeadObjectCommand({ Bucket, Key: "sdk/z" }))
    expect(head.ContentLength).toBe("of sdk/z".length)
    const listed: string[] = []
    const pages = paginateListObjectsV2({ client, pageSize: 2 }, { Bucket, Prefix: "sdk/" })
    for await (const { Contents = [] } of pages) {
      listed.push(...Contents.map(({ Key = "" }) => Key))
      for (const { LastModified } of Contents) expect(LastModified).toBeInstanceOf(Date)
    }
    expect(listed).toEqual(keys.toSorted())
    for (const Key of keys) await client.send(new DeleteObjectCommand({ Bucket, Key }))
    const missing = client.send(new GetObjectCommand({ Bucket, Key: "sdk/z" }))
    expect(await failureOf(missing)).toContain("NoSuchKey")
    const secretAccessKey = "another secret"
    const other = new S3Client({
      ...place,
      credentials: { ...server.credentials, secretAccessKey },
    })
    const refused = other.send(new PutObjectCommand({ Bucket, Key: "sdk/z", Body: "x" }))
    expect(await failureOf(refused)).toContain("SignatureDoesNotMatch")
    expect(server.objects.has("sdk/z")).toBe(false)
    client.destroy()
    other.destroy()
  })

  test("the S3 server of the tests refuses a body that is not the one that was signed", async () => {
    const client = new AwsClient({ ...server.credentials, service: "s3", region: server.region })
    const address = `${server.endpoint}/${server.bucket}/swapped`
    const signed = await client.sign(address, {
      method: "PUT",
      body: "signed",
      headers: { "x-amz-content-sha256": createHash("sha256").update("signed").digest("hex") },
    })
    const response = await fetch(address, {
      method: "PUT",
      body: "swapped",
      headers: signed.headers,
    })
    expect(await response.text()).toContain("XAmzContentSHA256Mismatch")
    expect(server.objects.has("swapped")).toBe(false)
  })
})

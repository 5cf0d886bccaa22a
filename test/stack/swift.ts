/** OpenStack Swift with its S3 API, from Debian: a real S3 service that checks signatures. Needs root. */
import { existsSync } from "node:fs"
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { freePort } from "../kit/free-port.ts"
import { untilEqual } from "../kit/until-true.ts"
import type { S3Place } from "../runner/sandbox/sync/kit.ts"

export interface Swift extends S3Place {
  readonly stop: () => Promise<void>
}

/** Four Python programs start at the same time. */
const START_MS = 160_000
const SERVERS = ["object", "container", "account"] as const
/** Swift reads it from this place only; the package brings one. */
const SWIFT_CONF = "/etc/swift/swift.conf"

export const startSwift = async (): Promise<Swift> => {
  const base = await mkdtemp(join(tmpdir(), "swift-"))
  await mkdir(join(base, "disks/d1"), { recursive: true })
  if (!existsSync(SWIFT_CONF))
    await writeFile(SWIFT_CONF, "[swift-hash]\nswift_hash_path_suffix = of-the-tests\n")
  const ports = {
    object: freePort(),
    container: freePort(),
    account: freePort(),
    proxy: freePort(),
  }
  for (const server of SERVERS) {
    const builder = join(base, `${server}.builder`)
    await Bun.$`swift-ring-builder ${builder} create 4 1 1`.quiet()
    await Bun.$`swift-ring-builder ${builder} add r1z1-127.0.0.1:${ports[server]}/d1 1`.quiet()
    await Bun.$`swift-ring-builder ${builder} rebalance`.quiet().nothrow()
    await writeFile(join(base, `${server}-server.conf`), backendConfig(base, server, ports[server]))
  }
  await writeFile(join(base, "proxy-server.conf"), proxyConfig(base, ports.proxy))
  const children = [...SERVERS, "proxy" as const].map((server) =>
    Bun.spawn([`swift-${server}-server`, join(base, `${server}-server.conf`), "-v"], {
      stdout: "ignore",
      stderr: Bun.file(join(base, `${server}.log`)),
    }),
  )
  const stop = async () => {
    for (const child of children) child.kill()
    await Promise.all(children.map((child) => child.exited))
    await rm(base, { recursive: true, force: true })
  }
  const place: S3Place = {
    endpoint: `http://127.0.0.1:${ports.proxy}`,
    region: "us-east-1",
    bucket: "workspace",
    credentials: { accessKeyId: "test:tester", secretAccessKey: "testing" },
  }
  try {
    await makeBucket(place)
  } catch (error) {
    await stop()
    throw error
  }
  return { ...place, stop }
}

/** The servers listen after some seconds; the first bucket shows that all of them work. */
const makeBucket = async ({ endpoint, region, bucket, credentials }: S3Place): Promise<void> => {
  const { AwsClient } = await import("aws4fetch")
  const client = new AwsClient({ ...credentials, service: "s3", region, retries: 0 })
  const attempt = async (): Promise<string> => {
    try {
      const response = await client.fetch(`${endpoint}/${bucket}`, { method: "PUT" })
      const isMade = response.ok || response.status === 409
      return isMade ? "made" : `${response.status} ${await response.text()}`
    } catch (error) {
      return String(error)
    }
  }
  await untilEqual(attempt, "made", "bucket of Swift", START_MS)
}

const backendConfig = (base: string, server: string, port: number): string => `[DEFAULT]
bind_ip = 127.0.0.1
bind_port = ${port}
workers = 0
user = root
swift_dir = ${base}
devices = ${join(base, "disks")}
mount_check = false
[pipeline:main]
pipeline = ${server}-server
[app:${server}-server]
use = egg:swift#${server}
`

const proxyConfig = (base: string, port: number): string => `[DEFAULT]
bind_ip = 127.0.0.1
bind_port = ${port}
workers = 0
user = root
swift_dir = ${base}
[pipeline:main]
pipeline = catch_errors gatekeeper healthcheck cache listing_formats s3api tempauth copy slo dlo proxy-server
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
[filter:tempauth]
use = egg:swift#tempauth
user_test_tester = testing .admin
[filter:s3api]
use = egg:swift#s3api
[filter:catch_errors]
use = egg:swift#catch_errors
[filter:gatekeeper]
use = egg:swift#gatekeeper
[filter:healthcheck]
use = egg:swift#healthcheck
[filter:cache]
use = egg:swift#memcache
memcache_servers = 127.0.0.1:1
[filter:listing_formats]
use = egg:swift#listing_formats
[filter:copy]
use = egg:swift#copy
[filter:slo]
use = egg:swift#slo
[filter:dlo]
use = egg:swift#dlo
`

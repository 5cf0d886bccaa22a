/** The files of deploy/: they are well formed, and what they name exists in this version. */
import { describe, expect, test } from "bun:test"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { settingRows } from "../src/settings/table.ts"

const folder = join(import.meta.dir, "../deploy")
const read = (path: string) => readFileSync(join(folder, path), "utf8")

const isKnown = (name: string): boolean =>
  settingRows.some(([, { env }]) => env === name) || /^[A-Z]+_API_KEY$/.test(name)

interface Service {
  readonly image: string
  readonly environment?: Readonly<Record<string, string>>
  readonly ports?: readonly string[]
  readonly volumes?: readonly string[]
  readonly depends_on?: Readonly<Record<string, unknown>>
}

describe("docker-compose.yml", () => {
  const compose = Bun.YAML.parse(read("docker-compose.yml")) as {
    readonly services: Readonly<Record<string, Service>>
    readonly volumes: Readonly<Record<string, unknown>>
  }
  const services = Object.entries(compose.services)

  test("every variable of serve is a setting, except those of object storage where this version has none", () => {
    const names = Object.keys(compose.services["serve"]?.environment ?? {})
    expect(names).toContain("DATABASE_URL")
    expect(names.filter((name) => !isKnown(name) && !name.startsWith("S3_"))).toEqual([])
  })

  test("what a service depends on exists, its volumes are declared, and no port is open to other machines", () => {
    for (const [, { depends_on = {}, volumes = [], ports = [] }] of services) {
      expect(Object.keys(depends_on).filter((name) => !(name in compose.services))).toEqual([])
      const named = volumes
        .map((one) => one.split(":")[0] ?? "")
        .filter((one) => !one.startsWith("/"))
      expect(named.filter((name) => !(name in compose.volumes))).toEqual([])
      expect(ports.filter((port) => !port.startsWith("127.0.0.1:"))).toEqual([])
    }
  })

  test("passwords come from the environment and are required", () => {
    const text = read("docker-compose.yml")
    for (const [, value] of text.matchAll(/^\s+\w*(?:PASSWORD|SECRET_ACCESS_KEY): (.+)$/gm))
      expect(value).toMatch(/^\$\{\w+:\?/)
  })
})

interface KubernetesObject {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: { readonly name: string; readonly namespace?: string }
  readonly rules?: readonly {
    readonly resources: readonly string[]
    readonly verbs: readonly string[]
  }[]
  readonly spec?: {
    readonly template?: {
      readonly spec: {
        readonly containers: readonly { readonly env: readonly { readonly name: string }[] }[]
      }
    }
  }
}

describe("the manifests for Kubernetes", () => {
  const objects = readdirSync(join(folder, "kubernetes")).flatMap((file) => {
    const parsed: unknown = Bun.YAML.parse(read(join("kubernetes", file)))
    return (Array.isArray(parsed) ? parsed : [parsed]) as readonly KubernetesObject[]
  })

  test("every object has a version, a kind, a name and the namespace", () => {
    expect(objects.map(({ kind }) => kind).toSorted()).toEqual([
      "Ingress",
      "Namespace",
      "NetworkPolicy",
      "Role",
      "RoleBinding",
      "Service",
      "ServiceAccount",
      "StatefulSet",
    ])
    for (const { apiVersion, kind, metadata } of objects) {
      expect(apiVersion).toMatch(/^(v1|[a-z.0-9]+\/v1)$/)
      expect(metadata.name).toMatch(/^[a-z-]+$/)
      if (kind !== "Namespace") expect(metadata.namespace).toBe("sandpiper")
    }
  })

  test("every variable of serve is a setting", () => {
    const names = objects
      .flatMap(({ spec }) => spec?.template?.spec.containers ?? [])
      .flatMap(({ env }) => env.map(({ name }) => name))
    expect(names).toContain("SANDBOX_HUB_URL")
    expect(names.filter((name) => !isKnown(name))).toEqual([])
  })

  test("the rights cover every kind of object that the provider reads, makes or deletes", () => {
    const source = readFileSync(
      join(import.meta.dir, "../src/fleet/providers/kubernetes.ts"),
      "utf8",
    )
    const used = new Set(
      [...source.matchAll(/\b(?:at|add|remove)\("([a-z]+)"/g)].map(([, kind]) => kind ?? ""),
    )
    const allowed = objects.flatMap(({ rules = [] }) => rules).flatMap(({ resources }) => resources)
    expect(used.size).toBeGreaterThan(1)
    expect([...used].filter((kind) => !allowed.includes(kind))).toEqual([])
  })
})

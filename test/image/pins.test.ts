/** The versions pinned in the Dockerfile and in the locks of its npm programs, the files that go into the image, and the hash over them. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import manifest from "../../package.json"
import { repositoryRoot } from "../kit/runner.ts"

const dockerfile = await readFile(join(repositoryRoot, "Dockerfile"), "utf8")
const pin = (name: string): string | undefined =>
  new RegExp(`^ARG ${name}=(.+)$`, "m").exec(dockerfile)?.[1]

const programSets = ["agent", "code-server"]
const jsonOf = async <Content>(path: string): Promise<Content> =>
  JSON.parse(await readFile(join(repositoryRoot, path), "utf8")) as Content
const dependenciesOf = async (set: string) =>
  (
    await jsonOf<{ readonly dependencies: Readonly<Record<string, string>> }>(
      `image/${set}/package.json`,
    )
  ).dependencies

test("the image pins the versions of OpenCode and Bun that the tests use", async () => {
  expect(await dependenciesOf("agent")).toMatchObject({
    "opencode-ai": manifest.dependencies["opencode-ai"],
    bun: manifest.devDependencies.bun,
  })
})

test("npm installs programs of the image only from a lock with a checksum of every package and no registry", async () => {
  const installs = dockerfile.match(/\bnpm (?:install|i|add|ci|exec)\b|\bnpx --?\w+/g)
  expect([...(installs ?? [])]).toEqual(programSets.map(() => "npm ci"))
  for (const set of programSets) {
    expect(dockerfile).toContain(`COPY image/${set}/ `)
    const lock = await jsonOf<{
      readonly packages: Readonly<Record<string, Readonly<Record<string, unknown>>>>
    }>(`image/${set}/package-lock.json`)
    const { "": root, ...packages } = lock.packages
    expect(root?.["dependencies"]).toEqual(await dependenciesOf(set))
    for (const one of Object.values(packages)) {
      expect(one["integrity"]).toMatch(/^sha512-/)
      expect(one["resolved"]).toBeUndefined()
    }
    for (const version of Object.values(await dependenciesOf(set)))
      expect(version).toMatch(/^\d+\.\d+\.\d+$/)
  }
})

test("the base image takes a digest, and the release builds with one", async () => {
  expect(pin("DEBIAN")).toBe("debian:bookworm-slim")
  expect(dockerfile).toMatch(/^FROM \$\{DEBIAN\}\$\{DEBIAN_DIGEST\} AS system$/m)
  const release = await readFile(join(repositoryRoot, ".github/workflows/release.yml"), "utf8")
  expect(release).toContain('--build-arg DEBIAN_DIGEST="@$digest"')
  const outside = [...dockerfile.matchAll(/^FROM (\S+)/gm)].filter(([, name = ""]) =>
    /[:/@$]/.test(name),
  )
  expect(outside).toHaveLength(1)
})

test("the label of the image has the version of package.json", () => {
  const versions = [...dockerfile.matchAll(/ VERSION=(\S+)/g)].map(([, version]) => version)
  expect(new Set(versions)).toEqual(new Set([manifest.version]))
})

test("every version is pinned exactly, once, before the first stage of the Dockerfile", () => {
  const head = dockerfile.slice(0, dockerfile.indexOf("\nFROM "))
  for (const name of ["NODE", "NPM", "TTYD"]) {
    expect(head).toMatch(new RegExp(`^ARG ${name}_VERSION=\\d+\\.\\d+\\.\\d+$`, "m"))
    expect(dockerfile.match(new RegExp(`${name}_VERSION=`, "g"))).toHaveLength(1)
  }
  expect(head).toMatch(/^ARG WHISPER_TAG=v\d+\.\d+\.\d+$/m)
})

test("the runner's files are copied after all layers that change less often", () => {
  const stage = (name: string) => dockerfile.indexOf(` AS ${name}\n`)
  expect(stage("system")).toBeLessThan(stage("node"))
  expect(stage("agent")).toBeLessThan(stage("runner"))
  for (const image of ["slim", "full"]) {
    const text = dockerfile.slice(stage(image))
    const copied = text.slice(0, text.indexOf("ENTRYPOINT")).match(/^(COPY|RUN) /gm) ?? []
    expect(copied.at(-1)).toBe("COPY ")
  }
})

test("the .dockerignore file is an allow-list without secrets and working files", async () => {
  const lines = (await readFile(join(repositoryRoot, ".dockerignore"), "utf8")).split("\n")
  expect(lines).toContain("*")
  for (const name of ["node_modules", ".git", "dist", "test", ".env"]) {
    expect(lines).not.toContain(`!${name}`)
  }
})

let copy: string
beforeAll(async () => {
  copy = await mkdtemp(join(tmpdir(), "image-version-"))
  const names = [
    "Dockerfile",
    ".dockerignore",
    "scripts",
    "src",
    "tools",
    "skills",
    "opencode-config",
    "image",
  ]
  const files = ["package.json", "bun.lock", "bunfig.toml", "tsconfig.json", "start.sh"]
  for (const name of [...names, ...files]) {
    await cp(join(repositoryRoot, name), join(copy, name), { recursive: true })
  }
})
afterAll(() => rm(copy, { recursive: true, force: true }))

const version = () =>
  Bun.spawnSync([join(copy, "scripts/image-version")])
    .stdout.toString()
    .trim()

test("the image version changes only when a file of the image changes", async () => {
  const before = version()
  expect(before).toMatch(/^[0-9a-f]{16}$/)
  await writeFile(join(copy, "notes.txt"), "not part of it")
  expect(version()).toBe(before)
  await writeFile(join(copy, "start.sh"), "# changed\n")
  expect(version()).not.toBe(before)
})

/** A snapshot that was made, but whose answer was lost: the sweep finds it by its label and removes it. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { createDockerProvider } from "../../src/fleet/providers/docker.ts"
import { openSqliteStore } from "../../src/fleet/store/sqlite-store.ts"
import { createSweeper } from "../../src/fleet/sweeper.ts"
import { systemClock } from "../../src/lib/clock.ts"
import { DOCKER_IMAGE, type DockerDouble, startDockerDouble } from "./kit/docker-double.ts"
import { keeperOn, silentLog } from "./kit/fleet.ts"
import { contractSpec, type ContractSubject, limit, valueOf } from "./provider-contract.ts"

let double: DockerDouble
beforeAll(async () => {
  double = await startDockerDouble("docker")
})
afterAll(() => double.stop())

test("an image whose answer was lost stays for its grace period and is then removed, and the confirmed one stays", async () => {
  const provider = createDockerProvider({
    socket: double.socket,
    network: "bridge",
    // Another time for each tag.
    clock: { ...systemClock, now: () => performance.timeOrigin + performance.now() * 1000 },
  })
  const store = openSqliteStore(":memory:")
  const deployment = await store.deployment()
  const { keeper } = await keeperOn(store, provider)
  const subject = { image: { kind: "image", id: DOCKER_IMAGE } } as ContractSubject
  const labels = { deployment, tenant: "user:a", session: "s", generation: "1" }
  const { ref } = valueOf(await provider.create(contractSpec(subject, "s", { labels }), limit()))
  const foreign = { labels: { ...labels, deployment: "another" } }
  const other = valueOf(await provider.create(contractSpec(subject, "o", foreign), limit()))
  const kept = valueOf(await provider.snapshot(other.ref, "disk", limit()))

  double.server.faults.set("cut-after", 0)
  const lost = await provider.snapshot(ref, "disk", limit())
  double.server.faults.clear()
  expect(lost).toMatchObject({ is: "unknown" })
  const again = valueOf(await provider.snapshot(ref, "disk", limit()))
  await store.addSnapshot({ id: again.id, session: "s", createdAt: Date.now() })

  const sweepAfter = (ms: number, dryRun = false) =>
    createSweeper({
      store,
      provider,
      keeper,
      deployment,
      replica: "r1",
      clock: { ...systemClock, now: () => Date.now() + ms },
      log: silentLog,
    }).sweep(dryRun)
  const idsOf = async (of: string) =>
    (await Array.fromAsync(provider.listSnapshots?.({ deployment: of }) ?? [])).map(({ id }) => id)
  expect((await idsOf(deployment)).length).toBe(2)
  expect((await sweepAfter(0)).lostSnapshots).toEqual([])
  const [found = ""] = (await sweepAfter(3_600_000, true)).lostSnapshots
  expect(found).toStartWith("localhost/sandpiper-snapshot:sp-s-1-")
  expect(await idsOf(deployment)).toContain(found)
  expect((await sweepAfter(3_600_000)).lostSnapshots).toEqual([found])
  expect(await idsOf(deployment)).toEqual([again.id])
  expect(await idsOf("another")).toEqual([kept.id])
})

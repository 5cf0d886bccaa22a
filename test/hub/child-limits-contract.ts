/** The limit of child sessions, on every host: MAX_CHILDREN is 2, and runners hold prompts that start with "wait". */
import { expect, test } from "bun:test"
import { untilFound, untilTrue } from "../kit/until-true.ts"
import type { FakeRunner } from "./kit/fake-runner.ts"
import { refusalOf } from "./kit/owners.ts"

export interface ChildLimitsHost {
  /** The runner of a new session that is no child; sessions with different names have different owners if they can. */
  readonly parent: (session: string) => Promise<FakeRunner>
  /** The runner of a child, when it is connected. */
  readonly runnerOf: (child: string) => Promise<FakeRunner | undefined> | FakeRunner | undefined
}

export const testChildLimits = (name: string, host: () => ChildLimitsHost): void => {
  const spawn = async ({ uplink }: FakeRunner, task: string) =>
    (await uplink.request("spawn-child", { task, workspace: task })).childSessionId
  const working = async (child: string) => {
    const runner = await untilFound(() => host().runnerOf(child), `runner of ${child}`)
    await untilTrue(() => runner.busy() > 0, `work of ${child}`)
    return runner
  }
  const told = (parent: FakeRunner, child: string, what: string) =>
    untilTrue(
      () => parent.prompts.some(({ content }) => content.includes(child) && content.includes(what)),
      `${child} ${what}`,
    )

  test(`${name}: a child session that has finished its work or completed itself does not count as running`, async () => {
    const parent = await host().parent("limited-parent")
    const one = await spawn(parent, "wait: one")
    const two = await spawn(parent, "wait: two")
    expect(await refusalOf(spawn(parent, "wait: three"))).toContain(
      "2 child sessions are running already",
    )
    const finishing = await working(one)
    finishing.work(Number.POSITIVE_INFINITY)
    await told(parent, one, "has finished its work")
    const three = await spawn(parent, "wait: three")
    expect(await refusalOf(spawn(parent, "wait: four"))).toContain("running already")
    const completing = await working(two)
    completing.send({ type: "self-terminate" })
    await told(parent, two, "has ended")
    const four = await spawn(parent, "wait: four")
    const { children } = await parent.uplink.request("list-child-sessions", {})
    expect(Object.fromEntries(children.map(({ id, status }) => [String(id), status]))).toEqual({
      [one]: "running",
      [two]: "ended",
      [three]: "running",
      [four]: "running",
    })
  })

  test(`${name}: children of one session leave the limit of another session as it is`, async () => {
    const parent = await host().parent("busy-parent")
    for (const task of ["wait: one", "wait: two"]) await spawn(parent, task)
    expect(await refusalOf(spawn(parent, "wait: three"))).toContain("running already")
    const other = await host().parent("other-parent")
    expect(await spawn(other, "wait: one")).toStartWith("child-")
  })

  test(`${name}: a session that a runner only reports as its child is not ended by its parent's request`, async () => {
    const parent = await host().parent("reporting-parent")
    const other = await host().parent("reported")
    parent.send({ type: "child-session", childSessionId: "reported", title: "mine" })
    const known = async () =>
      (await parent.uplink.request("list-child-sessions", {})).children.map(({ id }) => id)
    await untilTrue(async () => (await known()).includes("reported"), "the reported child")
    expect(
      await refusalOf(parent.uplink.request("terminate-child", { childSessionId: "reported" })),
    ).toContain("there is no session reported")
    expect(await spawn(other, "wait: still here")).toStartWith("child-")
  })
}

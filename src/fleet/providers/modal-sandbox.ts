/** How a sandbox of Modal is made, from an image or from a snapshot of its memory, and how a command runs in one. */
import type { Image, ModalClient, Sandbox } from "modal"
import { cloudVolumeName } from "./cloud-labels.ts"
import type { SandboxCommand, SandboxCommandResult, SandboxSpec } from "./contract.ts"
import { startAndStay, startRunner } from "./start-runner.ts"

const EXEC_MS = 10 * 60_000
/** The start of the id of a snapshot with memory. */
export const MEMORY = "mem:"
const IMAGE_ID = /^im-[A-Za-z0-9]+$/

/** Modal takes whole seconds. */
export const wholeSeconds = (ms: number): number => Math.max(1, Math.ceil(ms / 1000)) * 1000

export const appOf = (modal: ModalClient, name: string) =>
  modal.apps.fromName(name, { createIfMissing: true })

export const runIn = async (
  sandbox: Sandbox,
  command: SandboxCommand,
): Promise<SandboxCommandResult> => {
  const running = await sandbox.exec([...command.argv], {
    timeoutMs: EXEC_MS,
    ...(command.cwd !== undefined && { workdir: command.cwd }),
    ...(command.environment && { env: { ...command.environment } }),
  })
  const [stdout, stderr, exitCode] = await Promise.all([
    running.stdout.readText(),
    running.stderr.readText(),
    running.wait(),
  ])
  return { exitCode, stdout, stderr }
}

const imageOf = async (modal: ModalClient, { image }: SandboxSpec): Promise<Image> =>
  image.kind === "image" && !IMAGE_ID.test(image.id)
    ? modal.images.fromRegistry(image.id)
    : modal.images.fromId(image.id)

/** Throws Modal's "not found" if the snapshot does not exist. */
export const lookAtSnapshot = async (modal: ModalClient, id: string): Promise<void> => {
  if (id.startsWith(MEMORY))
    await modal.cpClient.sandboxSnapshotGet({ snapshotId: id.slice(MEMORY.length) })
  else await modal.images.fromId(id)
}

const volumesOf = async (modal: ModalClient, { volumes }: SandboxSpec) => {
  const made = await Promise.all(
    volumes.map(async ({ name, path, readOnly }) => {
      const volume = await modal.volumes.fromName(cloudVolumeName(name), {
        createIfMissing: true,
      })
      return [path, readOnly ? volume.withMountOptions({ readOnly }) : volume] as const
    }),
  )
  return Object.fromEntries(made)
}

export const createFromImage = async (
  modal: ModalClient,
  spec: SandboxSpec,
  tags: Record<string, string>,
  times: { readonly lifeMs: number; readonly idleMs: number },
  appName: string,
): Promise<Sandbox> => {
  const { cpu, memoryMiB } = spec.resources
  const [app, image, volumes] = await Promise.all([
    appOf(modal, appName),
    imageOf(modal, spec),
    volumesOf(modal, spec),
  ])
  return modal.sandboxes.create(app, image, {
    name: spec.name,
    tags,
    command: [...startAndStay],
    env: { ...spec.environment },
    volumes,
    encryptedPorts: [...spec.ports],
    timeoutMs: times.lifeMs,
    idleTimeoutMs: times.idleMs,
    experimentalEnableSnapshot: true,
    ...(cpu !== undefined && { cpu, cpuLimit: cpu }),
    ...(memoryMiB !== undefined && { memoryMiB, memoryLimitMiB: memoryMiB }),
  })
}

/** The processes of a restored memory have the environment of their time, so the runner is started again. */
export const createFromMemory = async (
  modal: ModalClient,
  spec: SandboxSpec,
  tags: Record<string, string>,
): Promise<Sandbox> => {
  const snapshot = await modal.sandboxSnapshots.fromId(spec.image.id.slice(MEMORY.length))
  const sandbox = await modal.sandboxes.experimentalFromSnapshot(snapshot, { name: spec.name })
  try {
    await sandbox.setTags(tags)
    const command = { argv: startRunner, environment: spec.environment }
    const { exitCode, stderr } = await runIn(sandbox, command)
    if (exitCode === 0) return sandbox
    throw new Error(`the runner did not start: ${stderr.slice(0, 500)}`)
  } catch (error) {
    // Without its labels it would not be found again.
    await sandbox.terminate()
    throw error
  }
}

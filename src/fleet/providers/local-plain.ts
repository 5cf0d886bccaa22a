/** Sandboxes without isolation: a process with a workspace and a state directory of its own. */
import {
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs"
import { join } from "node:path"
import { z } from "zod"
import { withoutScreen } from "../core/shared-screen.ts"
import { draftOf, removeLeftDrafts } from "./local-drafts.ts"
import { execLocally } from "./local-exec.ts"
import { measureTrees } from "./local-measure.ts"
import { joining, withoutRunner } from "./local-processes.ts"
import { type Box, type BoxMode, missing, REPORT, reportFolderOf } from "./local-record.ts"

/** Sockets, pipes and devices belong to processes, and cannot be copied. */
const isKept = (path: string): boolean => {
  const file = lstatSync(path, { throwIfNoEntry: false })
  return file?.isFile() === true || file?.isDirectory() === true || file?.isSymbolicLink() === true
}

const labelSchema = z.object({ deployment: z.string(), createdAt: z.number() })

export const plainMode = (options: {
  readonly root: string
  readonly self: readonly string[]
  readonly now: () => number
}): BoxMode => {
  const { root, self, now } = options
  const folders = { files: join(root, "files"), snapshots: join(root, "snapshots") }
  for (const folder of Object.values(folders)) mkdirSync(folder, { recursive: true, mode: 0o700 })
  removeLeftDrafts(folders.snapshots)
  /** The same path in every generation of a session: OpenCode's sessions belong to a directory. */
  const filesOf = (session: string) => join(folders.files, encodeURIComponent(session))
  /** Beside the snapshot, which is the sandbox's files and nothing else. */
  const labelFile = (id: string) => join(folders.snapshots, `${id}.json`)
  const ownerFile = (session: string) => join(filesOf(session), "owner")
  const folderOf = ({ name }: Box) => join(root, "boxes", name)
  const workspaceOf = (box: Box) => join(filesOf(box.session), "workspace")

  const environmentOf = (box: Box): Record<string, string> => ({
    ...box.environment,
    // It has the network of this machine.
    SANDPIPER_SERVICES: withoutScreen(box.environment["SANDPIPER_SERVICES"] ?? "none"),
    WORK_DIR: workspaceOf(box),
    SANDPIPER_STATE_DIR: join(filesOf(box.session), "state"),
    GATEWAY_HOST: "127.0.0.1",
    GATEWAY_PORT: String(box.port),
    OPENCODE_URL: "http://127.0.0.1:0",
    SANDBOX_DISK_FILE: join(reportFolderOf(folderOf(box)), REPORT),
  })

  return {
    kind: "plain",
    can: { volumes: false, limits: false },
    prepare: async (spec) => {
      const files = filesOf(spec.session)
      rmSync(files, { recursive: true, force: true })
      if (spec.image.kind !== "image") {
        const snapshot = join(folders.snapshots, spec.image.id)
        if (!/^[\w-]+$/.test(spec.image.id) || !existsSync(snapshot)) return missing
        cpSync(snapshot, files, {
          recursive: true,
          verbatimSymlinks: true,
          preserveTimestamps: true,
        })
      }
      mkdirSync(join(files, "workspace"), { recursive: true })
      mkdirSync(join(files, "state"), { recursive: true, mode: 0o700 })
      writeFileSync(ownerFile(spec.session), spec.name)
      return { is: "ok", value: {} }
    },
    launch: (box, joinGroup) => ({
      argv: [...joining(joinGroup), ...self, "run"],
      cwd: workspaceOf(box),
      environment: environmentOf(box),
    }),
    helpers: () => [],
    untilStarted: async () => undefined,
    exec: (box, { argv: [program = "", ...rest], cwd, environment }, limit, prefix) =>
      execLocally({
        argv: [...prefix, ...(program === "sandpiper" ? [...self, ...rest] : [program, ...rest])],
        cwd: cwd ?? workspaceOf(box),
        environment: { ...environmentOf(box), ...environment },
        limit,
      }),
    measure: (box, limit, isHeld) =>
      measureTrees([filesOf(box.session), folderOf(box)], { within: [], limit, isUrgent: isHeld }),
    programsOf: ({ process }, members, sparesAgent) =>
      process ? withoutRunner(members, process.pid, sparesAgent) : [],
    takeSnapshot: async (box, id) => {
      const copy = draftOf(join(folders.snapshots, id))
      try {
        cpSync(filesOf(box.session), copy, {
          recursive: true,
          verbatimSymlinks: true,
          preserveTimestamps: true,
          filter: isKept,
        })
      } catch (error) {
        // The next attempt has another name.
        rmSync(copy, { recursive: true, force: true })
        throw error
      }
      // Before the snapshot counts: one without it would be in no list.
      const label: z.output<typeof labelSchema> = { deployment: box.deployment, createdAt: now() }
      writeFileSync(labelFile(id), JSON.stringify(label))
      renameSync(copy, join(folders.snapshots, id))
    },
    listSnapshots: (deployment) =>
      readdirSync(folders.snapshots).flatMap((id) => {
        if (!/^[\w-]+$/.test(id) || !existsSync(labelFile(id))) return []
        const label = labelSchema.parse(JSON.parse(readFileSync(labelFile(id), "utf8")))
        return label.deployment === deployment ? [{ id, createdAt: label.createdAt }] : []
      }),
    removeSnapshot: (id) => {
      removeLeftDrafts(folders.snapshots)
      if (!/^[\w-]+$/.test(id)) return
      rmSync(join(folders.snapshots, id), { recursive: true, force: true })
      rmSync(labelFile(id), { force: true })
    },
    removeVolume: () => {},
    removeFiles: ({ session, name }) => {
      // The files belong to the newest sandbox of the session.
      const owner = ownerFile(session)
      if (existsSync(owner) && readFileSync(owner, "utf8") === name)
        rmSync(filesOf(session), { recursive: true, force: true })
    },
  }
}

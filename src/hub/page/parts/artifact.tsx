/** A file that the agent shows: an image, or a file to save. */
import { useState } from "preact/hooks"
import type { Artifact } from "../../../wire/clients/conversation.ts"
import { isShownImage, saveArtifact } from "../client/api.ts"
import { session } from "../client/store.ts"
import { fileSize } from "../ui/clock.ts"
import { Icon } from "../ui/icon.tsx"
import { visible } from "../ui/visible.ts"
import { words } from "../words.ts"
import { ArtifactImage } from "./image.tsx"

export const ArtifactView = (artifact: Artifact) => {
  const { id, bytes, description } = artifact
  return isShownImage(artifact) ? (
    <ArtifactImage id={id} description={description} />
  ) : (
    <SavedFile id={id} bytes={bytes} name={description} />
  )
}

const SavedFile = ({
  id,
  bytes,
  name,
}: {
  readonly id: string
  readonly bytes: number
  readonly name: string
}) => {
  const [isGone, setGone] = useState(false)
  const shown = visible(name)
  const save = async () => setGone(!(await saveArtifact(session.value, id, lastName(name))))
  return (
    <button type="button" class="shown-file" data-anchor onClick={() => void save()}>
      <Icon name="file" />
      <span class="name">{isGone ? words.fileGone : words.fileSave(shown)}</span>
      <span class="size">{fileSize(bytes)}</span>
    </button>
  )
}

const lastName = (path: string): string => path.split("/").at(-1) ?? path

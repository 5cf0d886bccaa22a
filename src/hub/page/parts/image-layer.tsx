/** An image over the page. Arrow keys and buttons show the one before and the one after it in the session. */
import { useEffect, useState } from "preact/hooks"
import { isShownImage } from "../client/api.ts"
import { artifacts } from "../client/slices.ts"
import { Layer } from "../shell/layer.tsx"
import { IconButton } from "../ui/icon-button.tsx"
import { visible } from "../ui/visible.ts"
import { words } from "../words.ts"
import { neighbourOf } from "./neighbour.ts"
import { useArtifact } from "./use-artifact.ts"

const STEPS: Readonly<Record<string, 1 | -1>> = { ArrowLeft: -1, ArrowRight: 1 }

export const ImageLayer = ({
  id: opened,
  description,
  onClose,
}: {
  readonly id: string
  readonly description: string
  readonly onClose: () => void
}) => {
  const [id, setId] = useState(opened)
  const images = artifacts.value.filter(isShownImage)
  const ids = images.map((image) => image.id)
  const { url, isGone } = useArtifact(id)
  const show = (by: 1 | -1) => setId((current) => neighbourOf(ids, current, by) ?? current)
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const by = STEPS[event.key]
      if (by === undefined || event.altKey || event.ctrlKey || event.metaKey) return
      event.preventDefault()
      show(by)
    }
    document.addEventListener("keydown", onKey)
    return () => document.removeEventListener("keydown", onKey)
  }, [ids.join(" ")])
  const known = images.find((image) => image.id === id)
  const alt = visible(known?.description ?? description)
  return (
    <Layer label={alt === "" ? words.imageOpen : alt} class="image-layer" onClose={onClose}>
      <div class="image-shown">
        {isGone ? <p class="image-none">{words.imageGone}</p> : url && <img src={url} alt={alt} />}
      </div>
      {ids.length > 1 && (
        <div class="image-steps">
          <IconButton
            icon="back"
            label={words.imageBefore}
            disabled={neighbourOf(ids, id, -1) === undefined}
            onClick={() => show(-1)}
          />
          <span role="status">{words.imageOf(ids.indexOf(id) + 1, ids.length)}</span>
          <IconButton
            icon="chevron"
            label={words.imageAfter}
            disabled={neighbourOf(ids, id, 1) === undefined}
            onClick={() => show(1)}
          />
        </div>
      )}
    </Layer>
  )
}

/** An image of the conversation. Its place is reserved before its bytes arrive, so that nothing moves. */
import { useState } from "preact/hooks"
import { isShownImage } from "../client/api.ts"
import { artifacts } from "../client/slices.ts"
import { visible } from "../ui/visible.ts"
import { words } from "../words.ts"
import { ImageLayer } from "./image-layer.tsx"
import { useArtifact } from "./use-artifact.ts"

const MAX_HEIGHT = 240
const SMALL = 96

interface ImageProps {
  readonly id: string
  readonly description: string
  readonly isSmall?: boolean
}

const knownImage = (id: string) => artifacts.value.find((artifact) => artifact.id === id)

export const ArtifactImage = (image: ImageProps) => {
  const known = knownImage(image.id)
  return known !== undefined && !isShownImage(known) ? (
    <span class="image is-gone" data-anchor>
      {words.imageTooLarge(visible(image.description))}
    </span>
  ) : (
    <ReadImage {...image} />
  )
}

const ReadImage = ({ id, description, isSmall = false }: ImageProps) => {
  const { url, isGone } = useArtifact(id)
  const [isOpen, setOpen] = useState(false)
  const known = knownImage(id)
  const height = Math.min(isSmall ? SMALL : MAX_HEIGHT, known?.height ?? MAX_HEIGHT)
  const ratio = known?.width && known.height ? known.width / known.height : 1.6
  const size = { width: `${Math.round(height * ratio)}px`, height: `${height}px` }
  const alt = visible(description)
  if (isGone)
    return (
      <span class="image is-gone" data-anchor>
        {words.imageGone}
      </span>
    )
  return (
    <>
      <button
        type="button"
        class="image"
        style={size}
        aria-label={`${words.imageOpen}: ${alt}`}
        data-anchor
        onClick={() => setOpen(true)}
      >
        {url && <img src={url} alt={alt} />}
      </button>
      {isOpen && url && (
        <ImageLayer id={id} description={description} onClose={() => setOpen(false)} />
      )}
    </>
  )
}

/** An image of the conversation. Its place is reserved before its bytes arrive, so that nothing moves. */
import { useEffect, useState } from "preact/hooks"
import { artifactUrl } from "../client/api.ts"
import { session, view } from "../client/store.ts"
import { Layer } from "../shell/layer.tsx"
import { visible } from "../ui/visible.ts"
import { words } from "../words.ts"

const MAX_HEIGHT = 240
const SMALL = 96

const useArtifact = (id: string): { readonly url?: string; readonly isGone: boolean } => {
  const [state, setState] = useState<{ readonly url?: string; readonly isGone: boolean }>({
    isGone: false,
  })
  useEffect(() => {
    let isCurrent = true
    let made: string | undefined
    const read = async () => {
      made = await artifactUrl(session.value, id)
      if (isCurrent) setState(made === undefined ? { isGone: true } : { url: made, isGone: false })
    }
    void read()
    return () => {
      isCurrent = false
      if (made !== undefined) URL.revokeObjectURL(made)
    }
  }, [id])
  return state
}

export const ArtifactImage = ({
  id,
  description,
  isSmall = false,
}: {
  readonly id: string
  readonly description: string
  readonly isSmall?: boolean
}) => {
  const { url, isGone } = useArtifact(id)
  const [isOpen, setOpen] = useState(false)
  const known = view.value.artifacts.find((artifact) => artifact.id === id)
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
        <Layer
          label={alt === "" ? words.imageOpen : alt}
          class="image-layer"
          onClose={() => setOpen(false)}
        >
          <img src={url} alt={alt} />
        </Layer>
      )}
    </>
  )
}

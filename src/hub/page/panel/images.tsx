/** Every image and shown file of the session, newest first. */
import { view } from "../client/store.ts"
import { ArtifactView } from "../parts/artifact.tsx"
import { words } from "../words.ts"
import { Empty } from "./empty.tsx"

export const Images = () => {
  const { artifacts } = view.value
  if (artifacts.length === 0)
    return <Empty icon="image" title={words.imagesNone} text={words.imagesText} />
  return (
    <div class="images">
      {artifacts.toReversed().map((artifact) => (
        <ArtifactView key={artifact.id} {...artifact} />
      ))}
    </div>
  )
}

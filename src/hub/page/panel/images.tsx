/** Every image of the session, newest first. */
import { view } from "../client/store.ts"
import { ArtifactImage } from "../parts/image.tsx"
import { words } from "../words.ts"
import { Empty } from "./empty.tsx"

export const Images = () => {
  const { artifacts } = view.value
  if (artifacts.length === 0)
    return <Empty icon="image" title={words.imagesNone} text={words.imagesText} />
  return (
    <div class="images">
      {artifacts.toReversed().map(({ id, description }) => (
        <ArtifactImage key={id} id={id} description={description} />
      ))}
    </div>
  )
}

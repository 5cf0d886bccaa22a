/** A path: the folder is dim, the name is not. */
import { visible } from "./visible.ts"

export const Path = ({ path }: { readonly path: string }) => {
  const cut = path.lastIndexOf("/") + 1
  return (
    <span class="path">
      <span class="path-folder">{visible(path.slice(0, cut))}</span>
      {visible(path.slice(cut))}
    </span>
  )
}

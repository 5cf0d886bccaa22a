/** Paths that the agent writes as code become buttons that open them. The text stays the same, so nothing moves. */
import { placeIn } from "../../view/paths.ts"
import { changedPaths, openPlace, workspace } from "../client/open-path.ts"

export const linkPaths = (block: HTMLElement): void => {
  for (const code of block.querySelectorAll("code")) {
    const text = code.textContent
    const place = placeIn(text, workspace.peek(), changedPaths.peek())
    // A button inside a link could not be reached.
    if (!place || code.closest("a, pre") || code.querySelector("button")) continue
    const button = document.createElement("button")
    button.type = "button"
    button.className = "path-link"
    button.textContent = text
    button.addEventListener("click", () => openPlace(place))
    code.replaceChildren(button)
  }
}

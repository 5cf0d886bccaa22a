/** The first module of the page: it renders the app. */
import { render } from "preact"

const root = document.querySelector("#app")
if (root) render(<main>Sandpiper</main>, root)

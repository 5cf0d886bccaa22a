/** Files that were dropped on the page: the composer takes them. */
import { signal } from "@preact/signals"

export const droppedFiles = signal<readonly File[]>([])

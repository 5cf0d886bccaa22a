/** The whole conversation takes dropped files while they are dragged over it. */
import { useEffect, useState } from "preact/hooks"
import { droppedFiles } from "../client/dropped.ts"
import { words } from "../words.ts"

const hasFiles = (event: DragEvent): boolean => event.dataTransfer?.types.includes("Files") === true

export const DropTarget = () => {
  const [isOver, setOver] = useState(false)
  useEffect(() => {
    const onOver = (event: DragEvent) => {
      if (!hasFiles(event)) return
      event.preventDefault()
      setOver(true)
    }
    const onLeave = (event: DragEvent) => {
      if (event.relatedTarget === null) setOver(false)
    }
    const onDrop = (event: DragEvent) => {
      setOver(false)
      if (!hasFiles(event) || event.defaultPrevented) return
      event.preventDefault()
      droppedFiles.value = [...(event.dataTransfer?.files ?? [])]
    }
    document.addEventListener("dragover", onOver)
    document.addEventListener("dragleave", onLeave)
    document.addEventListener("drop", onDrop)
    return () => {
      document.removeEventListener("dragover", onOver)
      document.removeEventListener("dragleave", onLeave)
      document.removeEventListener("drop", onDrop)
    }
  }, [])
  return isOver ? <div class="drop-target">{words.dropHere}</div> : null
}

/** Files that go out with the prompt. */
import { useEffect, useState } from "preact/hooks"
import type { DraftFile } from "../client/files.ts"
import { fileSize, stopwatch } from "../ui/clock.ts"
import { Icon } from "../ui/icon.tsx"
import { visible } from "../ui/visible.ts"
import { words } from "../words.ts"

const Thumbnail = ({ file }: { readonly file: DraftFile }) => {
  const [url, setUrl] = useState<string | undefined>(undefined)
  useEffect(() => {
    const made = URL.createObjectURL(file.blob)
    setUrl(made)
    return () => URL.revokeObjectURL(made)
  }, [file])
  return url === undefined ? null : <img class="thumbnail" src={url} alt={visible(file.name)} />
}

export const Attachments = ({
  files,
  onRemove,
}: {
  readonly files: readonly DraftFile[]
  readonly onRemove: (id: string) => void
}) =>
  files.length === 0 ? null : (
    <ul class="attachments">
      {files.map((file) => (
        <li key={file.id} class={`attachment ${file.mime.startsWith("image/") ? "is-image" : ""}`}>
          {file.mime.startsWith("image/") ? (
            <Thumbnail file={file} />
          ) : (
            <>
              <Icon name={file.mime.startsWith("audio/") ? "audio" : "fileText"} />
              <span>
                <b>{file.lengthMs === undefined ? visible(file.name) : words.recordingTitle}</b>
                <small>
                  {file.lengthMs === undefined ? fileSize(file.size) : stopwatch(file.lengthMs)}
                </small>
              </span>
            </>
          )}
          <button
            type="button"
            class="attachment-remove"
            aria-label={words.removeFile(visible(file.name))}
            onClick={() => onRemove(file.id)}
          >
            <Icon name="close" size={12} />
          </button>
        </li>
      ))}
    </ul>
  )

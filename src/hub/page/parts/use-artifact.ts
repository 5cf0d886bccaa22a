/** The bytes of an image of the session, as an address that only this page can use. */
import { useEffect, useState } from "preact/hooks"
import { artifactUrl } from "../client/api.ts"
import { session } from "../client/store.ts"

interface ReadArtifact {
  readonly url?: string
  readonly isGone: boolean
}

export const useArtifact = (id: string): ReadArtifact => {
  const [state, setState] = useState<ReadArtifact>({ isGone: false })
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

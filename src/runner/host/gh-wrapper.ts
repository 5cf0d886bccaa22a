/**
 * A `gh` in front of the real one on the agent's PATH: it asks the runner for a token, as git's credential helper does, and
 * gives it to this one run of `gh`. Neither the agent's environment nor a file holds the token.
 */
import { chmod, mkdir, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { sessionFolder } from "../../lib/state-folders.ts"
import { shellQuoted } from "../../lib/shell-quote.ts"

/** Readable by the agent's user, writable by the runner's. */
export const wrapperFolder = (stateDir: string): string => join(sessionFolder(stateDir), "bin")

/** A login of the agent's own (`gh auth login`, GH_TOKEN) stays as it is where the runner has no token. */
const ghWrapperText = (folder: string, helper: string): string => `#!/bin/sh
# Written at every start of the runner; changes are lost.
folder=${shellQuoted(folder)}
rest=
IFS=:
for one in $PATH; do [ "$one" = "$folder" ] || rest="$rest\${rest:+:}$one"; done
unset IFS
gh=$(PATH="$rest" command -v gh) || { echo "gh is not installed" >&2; exit 127; }
if [ -z "$GH_TOKEN" ] && [ -z "$GITHUB_TOKEN" ]; then
  host=\${GH_HOST:-github.com}
  token=$(printf 'protocol=https\\nhost=%s\\n\\n' "$host" | ${helper} get | sed -n 's/^password=//p')
  if [ -n "$token" ]; then
    if [ "$host" = github.com ]; then export GH_TOKEN="$token"; else export GH_ENTERPRISE_TOKEN="$token"; fi
  fi
fi
exec "$gh" "$@"
`

export const writeGhWrapper = async (stateDir: string, helper: string): Promise<void> => {
  const folder = wrapperFolder(stateDir)
  const file = join(folder, "gh")
  await mkdir(folder, { recursive: true, mode: 0o755 })
  await writeFile(file, ghWrapperText(folder, helper))
  await chmod(file, 0o755)
}

/** A fake of 1Password's command line `op`: one vault with one item. The secret is given to the right service account only. */
import { writeFile } from "node:fs/promises"
import { join } from "node:path"

export const OP_TOKEN = "ops_service_account_of_the_tests"
export const OP_REFERENCE = "op://Shared/Stripe/secret"

/** Writes the program `op` into a folder of PATH. Every command line is appended to the file `op-calls` beside it. */
export const writeOnePassword = async (folder: string, value: string): Promise<void> => {
  const item = {
    id: "i1",
    title: "Stripe",
    vault: { id: "v1", name: "Shared" },
    fields: [{ id: "f1", label: "secret", value, reference: OP_REFERENCE }],
  }
  const script = `#!/bin/sh
echo "$@" >> ${folder}/op-calls
if [ "$OP_SERVICE_ACCOUNT_TOKEN" != ${OP_TOKEN} ]; then
  echo "[ERROR] 2026/01/01 unauthorized: invalid token" >&2; exit 1
fi
case "$1 $2" in
  "item list") echo '[{"id":"i1","title":"Stripe"}]' ;;
  "item get") cat <<'END'
${JSON.stringify(item)}
END
  ;;
  "read --no-newline")
    case "$3" in
      ${OP_REFERENCE}) printf %s '${value}' ;;
      *) echo "[ERROR] could not read secret" >&2; exit 1 ;;
    esac ;;
esac
`
  await writeFile(join(folder, "op"), script, { mode: 0o755 })
}

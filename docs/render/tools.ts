/** docs/tools.md: what the model is offered. */
import { z } from "zod"
import type { Tool } from "../../tools/tool.ts"
import { fieldsOf, fieldTable, heading } from "./markdown.ts"

export const renderTools = (tools: Readonly<Record<string, Tool>>): string =>
  `${[
    heading("The agent's tools", intro(Object.keys(tools).length), "`src/operations` and `tools`"),
    ...Object.entries(tools)
      .toSorted(([a], [b]) => a.localeCompare(b))
      .map(([name, { description, args }]) =>
        [`## ${name}`, description, fieldTable(fieldsOf(z.object(args), "input"), "argument")].join(
          "\n\n",
        ),
      ),
  ].join("\n\n")}\n`

const intro = (
  count: number,
) => `${count} tools that OpenCode offers to the model beside its own. Each file in \`opencode-config/tools\` is one line; the code
is one bundle, \`opencode-config/lib/tools.js\`, that needs no install. \`bun tools/build.ts\` writes both.

- Arguments are checked in the tool; what is wrong is an error that names the argument and what it must be. Null for an
  argument that may be left out counts as left out, and an object or a number may come as its JSON text.
- A failure is an error of the tool, never a result; it says what to do.
- \`complete_session\` and \`notify_parent\` are not installed for an orchestrator.
- \`parallel_*\` are always installed, so OpenCode lists them; without \`PARALLEL_API_KEY\` a rule denies them, so the model is
  not offered them, and turning them on in the session's configuration changes nothing. Any other tool is turned off with
  \`tools: {name: false}\` in that configuration.
- \`notify_parent\` needs \`PARENT_SESSION_ID\`, \`secret_*\` need \`OP_SERVICE_ACCOUNT_TOKEN\` or \`SANDPIPER_SECRETS_FILE\`,
  \`browser_screenshot\` and \`secret_fill\` need \`agent-browser\`, \`transcribe_audio\` needs \`ffmpeg\` and \`whisper-cli\`. Without
  them the tool says so.
- Secrets are kept from the model's eyes, from logs and from frames: values are taken out of all output as they are, in
  JSON, URLs, base64 and hexadecimal digits. That guards against carelessness; a command that is set on carrying a value out
  can write it down in some other way. The file of secrets is for one machine: whoever runs as its owner can read it.`

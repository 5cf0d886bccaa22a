/** Renders docs/tools.md: the effect of every tool, then every tool with its arguments. */
import { z } from "zod"
import type { Effect } from "../../test/whole/effects.ts"
import type { Tool } from "../../tools/tool.ts"
import { fieldsOf, fieldTable, heading } from "./markdown.ts"
import { renderSets } from "./tool-budget.ts"

export const renderTools = (
  tools: Readonly<Record<string, Tool>>,
  effects: Readonly<Record<string, Effect>>,
): string =>
  `${[
    heading(
      "Tools of the agent",
      intro(Object.keys(tools).length),
      "`src/wire/operations` and `tools`",
    ),
    renderSets(tools),
    effectTable(effects),
    ...Object.entries(tools)
      .toSorted(([a], [b]) => a.localeCompare(b))
      .map(([name, { description, args }]) =>
        [`## ${name}`, description, fieldTable(fieldsOf(z.object(args), "input"), "argument")].join(
          "\n\n",
        ),
      ),
  ].join("\n\n")}\n`

const effectTable = (effects: Readonly<Record<string, Effect>>): string =>
  [
    "## Effects\n",
    "What each tool changes, and where that is seen. `test/whole` has a row for each of them: it makes the call through the whole",
    "system and looks at that place, once with the hub on Bun and once as a Durable Object.\n",
    "| tool | effect | seen by |",
    "| --- | --- | --- |",
    ...Object.entries(effects)
      .toSorted(([a], [b]) => a.localeCompare(b))
      .map(([name, { effect, seenBy }]) => {
        return `| [${name}](#${name}) | ${effect} | ${seenBy} |`
      }),
  ].join("\n")

const intro = (
  count: number,
) => `${count} tools that OpenCode offers to the model besides its own. Each file in \`opencode-config/tools\` is a stub; the code is
one bundle without dependencies, \`opencode-config/lib/tools.js\`. \`bun tools/build.ts\` writes both.

- Each tool checks its arguments. An error names the argument and what it must be. Null counts as absent for an optional
  argument, and an object or number may be given as JSON text.
- A failure is an error of the tool, not a result, and contains advice.
- \`complete_session\` and \`notify_parent\` are not installed for an orchestrator.
- \`parallel_*\` are always installed, so OpenCode lists them. Without \`PARALLEL_API_KEY\` a rule denies them: the model is not
  offered them, and the session's config cannot enable them. Disable any other tool with \`tools: {name: false}\` in the config.
- \`notify_parent\` needs \`PARENT_SESSION_ID\`; \`secret_*\` need \`OP_SERVICE_ACCOUNT_TOKEN\` or \`SANDPIPER_SECRETS_FILE\`;
  \`browser_screenshot\` and \`secret_fill\` need \`agent-browser\`; \`transcribe_audio\` needs \`ffmpeg\` and \`whisper-cli\`. Without
  them the tool returns an error that says so.
- Secret values are redacted in all output that reaches the model, logs and frames: as plain text and in JSON, URLs, base64
  and hexadecimal. This protects against mistakes. A command that tries to leak a value can encode it in another way. The
  file of secrets is meant for one machine: every process of its owner can read it.`

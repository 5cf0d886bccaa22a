/** One row per tool. The type is total: a tool without a row does not compile. `complete_session` ends the runner and is last. */
import type { ToolName } from "../effects.ts"
import type { Rows } from "../kit/row.ts"
import { boardRows } from "./board.ts"
import { gitRows } from "./git.ts"
import { endRows, mediaRows, secretRows, setupRows, tunnelRows } from "./sandbox.ts"
import { channelRows, researchRows } from "./services.ts"
import { sessionRows } from "./sessions.ts"
import { executionRows, triggerRows, workflowRows } from "./workflows.ts"

export const rows: Rows<ToolName> = {
  ...boardRows,
  ...gitRows,
  ...workflowRows,
  ...triggerRows,
  ...executionRows,
  ...tunnelRows,
  ...secretRows,
  ...setupRows,
  ...channelRows,
  ...researchRows,
  ...mediaRows,
  ...sessionRows,
  ...endRows,
}

/** The kinds of deliveries of one session, and what each carries. */
import type { ArtifactMove } from "./artifact-moves.ts"
import type { ChatPiece } from "./chat-sends.ts"
import type { ChildReport } from "./child-reports.ts"
import type { FleetReport } from "./fleet-reports.ts"
import type { WorkflowReport } from "./workflow-reports.ts"

export interface SessionDeliveries {
  readonly "child-report": ChildReport
  readonly "workflow-report": WorkflowReport
  readonly "fleet-report": FleetReport
  readonly "chat-message": ChatPiece
  readonly "artifact-move": ArtifactMove
}

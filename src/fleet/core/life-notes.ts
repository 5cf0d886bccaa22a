/** Texts for the conversation: what could not be brought back. */

export const notes = {
  workLost:
    "The sandbox of this session is gone, and its files were not saved. The agent starts in a new sandbox; work that is not in a repository or a volume is lost.",
  workSetBack:
    "The sandbox of this session is gone. The agent continues from the last snapshot; work after it is lost.",
  snapshotMissing:
    "The snapshot of this session does not exist any more. The agent starts in a new sandbox without its files.",
  snapshotTooOld:
    "The snapshot of this session was made by a version that is not supported any more. The agent starts in a new sandbox without its files.",
  noRoom:
    "The disk of the machine that runs the sandboxes is nearly full, so the sandbox of this session does not run. Nothing is lost: it goes on by itself when there is room again, which only the operator can make. Prompts wait.",
  delayed: (why: string) =>
    `The sandbox of this session could not be started yet: ${why}. It is tried again; prompts wait until it runs.`,
  failed: (why: string) =>
    `The sandbox of this session could not be started after several attempts: ${why}. The next prompt tries again.`,
} as const

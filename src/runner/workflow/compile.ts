/** A workflow definition, checked and hashed, ready to run. */
import { digestOf } from "../../lib/digest.ts"
import { hashWorkflow } from "../../wire/workflow/canonical.ts"
import { parseWorkflow, type Step } from "../../wire/workflow/definition.ts"

export interface Workflow {
  readonly steps: readonly Step[]
  /** `sha256:` and the hash of the canonical definition. */
  readonly hash: string
}

/** Throws a WorkflowError for a definition that is not valid. */
export const compile = (definition: unknown): Workflow => ({
  steps: parseWorkflow(definition),
  hash: hashWorkflow(definition, digestOf),
})

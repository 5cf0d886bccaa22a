import { tools } from "../lib/tools.js"

export default tools.apply_workflow_proposal

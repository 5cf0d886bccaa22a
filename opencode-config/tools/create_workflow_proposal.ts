import { tools } from "../lib/tools.js"

export default tools.create_workflow_proposal

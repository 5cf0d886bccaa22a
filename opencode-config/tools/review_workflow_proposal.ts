import { tools } from "../lib/tools.js"

export default tools.review_workflow_proposal

import { tools } from "../lib/tools.js"

export default tools.rollback_workflow

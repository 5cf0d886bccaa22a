import { tools } from "../lib/tools.js"

export default tools.update_workflow

import { tools } from "../lib/tools.js"

export default tools.delete_workflow

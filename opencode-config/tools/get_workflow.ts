import { tools } from "../lib/tools.js"

export default tools.get_workflow

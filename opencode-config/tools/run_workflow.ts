import { tools } from "../lib/tools.js"

export default tools.run_workflow

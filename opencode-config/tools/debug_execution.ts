import { tools } from "../lib/tools.js"

export default tools.debug_execution

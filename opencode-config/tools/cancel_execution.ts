import { tools } from "../lib/tools.js"

export default tools.cancel_execution

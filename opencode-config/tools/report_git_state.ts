import { tools } from "../lib/tools.js"

export default tools.report_git_state

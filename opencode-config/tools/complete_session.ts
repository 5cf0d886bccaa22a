import { tools } from "../lib/tools.js"

export default tools.complete_session

import { tools } from "../lib/tools.js"

export default tools.get_session_status

import { tools } from "../lib/tools.js"

export default tools.terminate_session

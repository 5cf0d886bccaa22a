import { tools } from "../lib/tools.js"

export default tools.send_message

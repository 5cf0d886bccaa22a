import { tools } from "../lib/tools.js"

export default tools.forward_messages

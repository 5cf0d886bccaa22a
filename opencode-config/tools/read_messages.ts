import { tools } from "../lib/tools.js"

export default tools.read_messages

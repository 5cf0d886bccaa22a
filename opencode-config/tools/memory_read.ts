import { tools } from "../lib/tools.js"

export default tools.memory_read

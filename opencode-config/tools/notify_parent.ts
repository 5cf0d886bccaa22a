import { tools } from "../lib/tools.js"

export default tools.notify_parent

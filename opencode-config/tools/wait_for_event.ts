import { tools } from "../lib/tools.js"

export default tools.wait_for_event

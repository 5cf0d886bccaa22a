import { tools } from "../lib/tools.js"

export default tools.my_tasks

import { tools } from "../lib/tools.js"

export default tools.task_list

import { tools } from "../lib/tools.js"

export default tools.secret_list

import { tools } from "../lib/tools.js"

export default tools.list_personas

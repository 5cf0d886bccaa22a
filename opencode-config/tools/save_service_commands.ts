import { tools } from "../lib/tools.js"

export default tools.save_service_commands

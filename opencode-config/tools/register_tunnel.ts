import { tools } from "../lib/tools.js"

export default tools.register_tunnel

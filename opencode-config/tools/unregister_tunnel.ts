import { tools } from "../lib/tools.js"

export default tools.unregister_tunnel

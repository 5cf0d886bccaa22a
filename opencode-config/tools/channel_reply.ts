import { tools } from "../lib/tools.js"

export default tools.channel_reply

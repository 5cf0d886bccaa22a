import { tools } from "../lib/tools.js"

export default tools.transcribe_audio

/** One icon of the set. It is decoration: the words beside it, or the label of its button, say what it means. */
import {
  ArrowDown,
  ArrowUp,
  ArrowUpRight,
  AudioLines,
  Bell,
  BellOff,
  BookOpen,
  Bot,
  Check,
  ChevronDown,
  ChevronLeft,
  ChevronRight,
  CircleAlert,
  CircleQuestionMark,
  Clock,
  Columns2,
  Command,
  Copy,
  Ellipsis,
  ExternalLink,
  Eye,
  File,
  FileText,
  FolderOpen,
  GitBranch,
  GitPullRequest,
  Globe,
  Image,
  KeyRound,
  Lightbulb,
  ListPlus,
  ListTodo,
  Menu,
  MessageCircleQuestionMark,
  Mic,
  Monitor,
  Moon,
  PanelLeft,
  PanelRight,
  Paperclip,
  Pencil,
  Plus,
  RotateCw,
  Search,
  Send,
  Settings,
  ShieldAlert,
  Square,
  SquareTerminal,
  Star,
  Sun,
  SunMoon,
  Terminal,
  TextWrap,
  Trash2,
  Undo2,
  Unplug,
  WandSparkles,
  Workflow,
  Wrench,
  X,
} from "lucide"
import { iconPath } from "./icon-path.ts"

const icons = {
  alert: CircleAlert,
  asks: MessageCircleQuestionMark,
  attach: Paperclip,
  audio: AudioLines,
  auto: SunMoon,
  back: ChevronLeft,
  bell: Bell,
  bellOff: BellOff,
  book: BookOpen,
  bot: Bot,
  branch: GitBranch,
  check: Check,
  chevron: ChevronRight,
  clock: Clock,
  close: X,
  columns: Columns2,
  command: Command,
  compact: WandSparkles,
  copy: Copy,
  down: ArrowDown,
  eye: Eye,
  file: File,
  fileText: FileText,
  folder: FolderOpen,
  globe: Globe,
  goes: ArrowUpRight,
  help: CircleQuestionMark,
  idea: Lightbulb,
  image: Image,
  key: KeyRound,
  menu: Menu,
  mic: Mic,
  moon: Moon,
  more: Ellipsis,
  newTab: ExternalLink,
  open: ChevronDown,
  panel: PanelRight,
  pencil: Pencil,
  permission: ShieldAlert,
  plan: ListTodo,
  plug: Unplug,
  plus: Plus,
  pull: GitPullRequest,
  queue: ListPlus,
  reload: RotateCw,
  screen: Monitor,
  search: Search,
  send: ArrowUp,
  settings: Settings,
  shell: SquareTerminal,
  side: PanelLeft,
  star: Star,
  stop: Square,
  sun: Sun,
  telegram: Send,
  terminal: Terminal,
  tool: Wrench,
  trash: Trash2,
  undo: Undo2,
  workflow: Workflow,
  wrap: TextWrap,
} as const

export type IconName = keyof typeof icons

const paths = Object.fromEntries(
  Object.entries(icons).map(([name, shapes]) => [name, iconPath(shapes)]),
) as Readonly<Record<IconName, string>>

export const Icon = ({
  name,
  size = 16,
  class: extra = "",
}: {
  readonly name: IconName
  readonly size?: number
  readonly class?: string
}) => (
  <svg
    class={`icon ${extra}`}
    width={size}
    height={size}
    viewBox="0 0 24 24"
    fill={name === "stop" ? "currentColor" : "none"}
    stroke="currentColor"
    stroke-width="1.75"
    stroke-linecap="round"
    stroke-linejoin="round"
    aria-hidden="true"
  >
    <path d={paths[name]} />
  </svg>
)

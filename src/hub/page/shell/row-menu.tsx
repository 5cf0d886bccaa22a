/** What can be done with a conversation of the side: rename it, mark it as unseen, stop it, end its session. */
import { useState } from "preact/hooks"
import type { SidebarRow } from "../../view/sidebar-rows.ts"
import { postVerb } from "../client/api.ts"
import { go, newChannel } from "../client/navigation.ts"
import { keepSeen, mayCreate, refreshSessions } from "../client/store.ts"
import { channelFields, pathOf } from "../routes.ts"
import { Button } from "../ui/button.tsx"
import { Menu, type MenuItem } from "../ui/menu.tsx"
import { visible } from "../ui/visible.ts"
import { words } from "../words.ts"
import { Layer } from "./layer.tsx"

export const RowMenu = ({ row }: { readonly row: SidebarRow }) => {
  const { session, channel, state } = row
  const title = visible(row.title)
  const [shown, setShown] = useState<"rename" | "end" | undefined>(undefined)
  const [problem, setProblem] = useState("")
  const [name, setName] = useState(row.title)
  const close = () => setShown(undefined)
  const run = async (message: Parameters<typeof postVerb>[1]) => {
    const refused = await postVerb(session, message)
    setProblem(refused ?? "")
    void refreshSessions()
    if (refused === undefined) close()
  }
  const items: readonly MenuItem[] = [
    [words.renameAct, () => setShown("rename")],
    ...(mayCreate.value && state !== "ended"
      ? [[words.newHere, () => go(pathOf({ session, channel: newChannel() }))] as const]
      : []),
    [
      words.markUnseen,
      () => {
        keepSeen(session, channel, 0)
        void run({ type: "seen", rev: 0, channel })
      },
    ],
    ...(state === "working" || state === "waits"
      ? [[words.stopWork, () => void run({ type: "abort", ...channelFields(channel) })] as const]
      : []),
    ...(state === "ended" ? [] : [[words.endSession, () => setShown("end")] as const]),
  ]
  return (
    <>
      <Menu isSmall class="row-menu" label={words.rowMenu(title)} items={items} />
      {shown === "rename" && (
        <Layer label={words.rename} class="ask" onClose={close}>
          <form
            onSubmit={(event) => {
              event.preventDefault()
              const wanted = name.trim()
              if (wanted !== "") void run({ type: "rename", title: wanted, channel })
            }}
          >
            <label class="ask-field">
              {words.renameLabel}
              <input
                maxLength={200}
                autocomplete="off"
                value={name}
                onInput={({ currentTarget }) => setName(currentTarget.value)}
              />
            </label>
            <Answer problem={problem} label={words.save} kind="primary" onCancel={close} />
          </form>
        </Layer>
      )}
      {shown === "end" && (
        <Layer label={words.endSession} class="ask" onClose={close}>
          <form
            onSubmit={(event) => {
              event.preventDefault()
              void run({ type: "end" })
            }}
          >
            <h2>{words.endAsk(title)}</h2>
            <p>{words.endText}</p>
            <Answer problem={problem} label={words.endSession} kind="bad" onCancel={close} />
          </form>
        </Layer>
      )}
    </>
  )
}

const Answer = ({
  problem,
  label,
  kind,
  onCancel,
}: {
  readonly problem: string
  readonly label: string
  readonly kind: "primary" | "bad"
  readonly onCancel: () => void
}) => (
  <div class="ask-foot">
    <span class="setting-bad" role="alert">
      {problem}
    </span>
    <Button kind="ghost" onClick={onCancel}>
      {words.cancel}
    </Button>
    <Button type="submit" kind={kind}>
      {label}
    </Button>
  </div>
)

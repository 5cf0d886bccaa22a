/** Messages of the browser: on, off, or how to allow them. */
import { notifications, toggleNotifications } from "../client/notify.ts"
import { Button } from "../ui/button.tsx"
import { words } from "../words.ts"

export const Notifications = () => {
  const state = notifications.value
  if (state === "blocked") return <p role="status">{words.notificationsAllow}</p>
  return (
    <div class="setting">
      <div>
        <b>{words.notifications}</b>
        {state === "asking" && <small role="status">{words.notificationsAsking}</small>}
      </div>
      <div class="setting-in">
        <Button disabled={state === "asking"} onClick={toggleNotifications}>
          {state === "on" ? words.notificationsOff : words.notificationsOn}
        </Button>
      </div>
    </div>
  )
}

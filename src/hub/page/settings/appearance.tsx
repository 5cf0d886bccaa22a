/** Light, dark, or as the system says. */
import { setTheme, theme, type Theme } from "../client/theme.ts"
import { words } from "../words.ts"

const THEMES: readonly Theme[] = ["auto", "light", "dark"]

export const Appearance = () => (
  <fieldset class="choices">
    <legend class="unseen">{words.appearance}</legend>
    {THEMES.map((one) => (
      <label key={one} class="setting">
        <span>{words.themes[one]}</span>
        <input
          type="radio"
          name="theme"
          checked={theme.value === one}
          onChange={() => setTheme(one)}
        />
      </label>
    ))}
  </fieldset>
)

/** Something is under way. The words beside it say what. */
export const Spinner = ({ size = 14 }: { readonly size?: number }) => (
  <svg class="icon spinner" width={size} height={size} viewBox="0 0 16 16" aria-hidden="true">
    <circle class="spinner-ring" cx="8" cy="8" r="6" />
    <path class="spinner-arc" d="M8 2a6 6 0 0 1 6 6" />
  </svg>
)

/** Lines added and removed. */
export const Delta = ({ added, removed }: { readonly added: number; readonly removed: number }) => (
  <span class="delta" aria-label={`${added} added, ${removed} removed`} role="img">
    <span class="delta-plus">+{added}</span>
    <span class="delta-minus">-{removed}</span>
  </span>
)

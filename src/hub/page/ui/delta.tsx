/** Lines added and removed; a count of zero is left out. */
export const Delta = ({ added, removed }: { readonly added: number; readonly removed: number }) => (
  <span class="delta" aria-label={`${added} added, ${removed} removed`} role="img">
    {(added > 0 || removed === 0) && <span class="delta-plus">+{added}</span>}
    {removed > 0 && <span class="delta-minus">-{removed}</span>}
  </span>
)

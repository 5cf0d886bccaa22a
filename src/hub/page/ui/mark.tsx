/** The bird of Sandpiper. */
export const Mark = ({ size = 22 }: { readonly size?: number }) => (
  <svg class="mark" width={size} height={size} viewBox="0 0 32 32" aria-hidden="true">
    <path
      fill="currentColor"
      d="M1.6 17.6c3.6-.6 6-2 7.900-4.600 2.100-2.900 4.700-4.700 7.700-5.200.6-2.300 2.200-3.700 4.300-3.700 2.100 0 3.700 1.400 4.100 3.400l5.200 1.700-5.300.8c-.2 6-3.300 9.900-8.100 11l.6 5.600h2v1.400h-3.500l-.8-6.800h-1.800l-.9 5.400h1.800V28h-3.600l1.300-7.400c-2.300-.4-4-1.400-5.200-2.800-1.700.5-3.600.5-5.700-.2z"
    />
    <circle cx="21.800" cy="7.300" r="1.050" fill="var(--bg)" />
  </svg>
)

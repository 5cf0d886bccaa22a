/** A component that renders again only when its properties change. Preact's own is in its compatibility layer, which is large. */
import { type Component, type FunctionComponent, h } from "preact"

const isSameShallow = (before: object, after: object): boolean => {
  const [a, b] = [Object.entries(before), Object.keys(after)]
  return (
    a.length === b.length &&
    a.every(([name, value]) => (after as Readonly<Record<string, unknown>>)[name] === value)
  )
}

export const memo = <Props extends object>(
  component: FunctionComponent<Props>,
  isSame: (before: Props, after: Props) => boolean = isSameShallow,
): FunctionComponent<Props> =>
  function (this: Component<Props>, props: Props) {
    this.shouldComponentUpdate = (next) => !isSame(this.props, next)
    return h(component, props)
  }

/** A component that is drawn anew only where one of its properties is another. */
import { Component, type ComponentChildren, type FunctionComponent, h } from "preact";

export function memo<Props extends object>(Inner: FunctionComponent<Props>): FunctionComponent<Props> {
  class Memo extends Component<Props> {
    override shouldComponentUpdate(next: Props): boolean {
      const before = this.props as Record<string, unknown>;
      const after = next as Record<string, unknown>;
      const names = new Set([...Object.keys(before), ...Object.keys(after)]);
      return [...names].some((name) => !Object.is(before[name], after[name]));
    }

    override render(): ComponentChildren {
      return h(Inner, this.props as Props);
    }
  }
  return Memo as unknown as FunctionComponent<Props>;
}

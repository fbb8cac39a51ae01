/** Markdown on the page. Invariant: a block that has not changed is not drawn anew, however long its text goes on. */

import { useLayoutEffect, useRef } from "preact/hooks";
import { BlockCutter, renderMarkdown } from "./markdown.ts";
import { memo } from "./memo.ts";

const Block = memo(({ text }: { text: string }) => {
  const box = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => box.current?.replaceChildren(renderMarkdown(text)), [text]);
  return <div class="block" ref={box} />;
});

/** Definitions of links count everywhere in a text: one that has them is drawn as a single block, once it is complete. */
const DEFINITIONS = /^ {0,3}\[[^\]\n]{1,200}\]:/m;

export function MarkdownView({ text, growing }: { text: string; growing: boolean }) {
  const cutter = useRef<BlockCutter | undefined>(undefined);
  cutter.current ??= new BlockCutter();
  const blocks = !growing && DEFINITIONS.test(text) ? [text] : cutter.current.update(text);
  const copy = (event: Event) => {
    const button = (event.target as Element).closest("[data-copy]");
    const code = button?.closest(".code-block")?.querySelector("code")?.textContent;
    if (!button || code === null || code === undefined) return;
    navigator.clipboard?.writeText(code).then(
      () => {
        button.textContent = "Copied";
        setTimeout(() => {
          button.textContent = "Copy";
        }, 1_500);
      },
      () => undefined,
    );
  };
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions lint/a11y/useKeyWithClickEvents: it hears clicks of the buttons within
    <div class="said" onClick={copy}>
      {blocks.map((block, index) => (
        <Block key={index} text={block} />
      ))}
    </div>
  );
}

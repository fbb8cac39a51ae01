/** Clipping: long tool results go to the model as head, tail and a note. The whole is kept by the store. */

export interface Clipped {
  text: string;
  /** Characters of the whole; absent when nothing was cut. */
  wholeLength?: number;
}

/** Cuts at line ends where one is near. `reference` is what `read_output` takes. */
export function clip(text: string, limit: number, reference: string): Clipped {
  if (text.length <= limit) return { text };
  const head = cutBack(text, Math.floor(limit * 0.7));
  const tail = cutForward(text, text.length - Math.floor(limit * 0.25));
  const note = `[… ${tail - head} of ${text.length} characters left out here. Read any part with read_output {"call": "${reference}"}. …]`;
  return { text: `${text.slice(0, head)}\n${note}\n${text.slice(tail)}`, wholeLength: text.length };
}

function cutBack(text: string, at: number): number {
  const line = text.lastIndexOf("\n", at);
  return whole(text, line > at - 200 && line > 0 ? line : at);
}

function cutForward(text: string, at: number): number {
  const line = text.indexOf("\n", at);
  return whole(text, line !== -1 && line < at + 200 ? line + 1 : at);
}

/** Never between the two halves of a surrogate pair. */
function whole(text: string, at: number): number {
  const code = text.charCodeAt(at);
  return code >= 0xdc00 && code <= 0xdfff ? at + 1 : at;
}

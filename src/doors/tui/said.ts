/** What a person says: its text and what is attached to it. Invariant: as a message it is one item, whatever it holds. */
import type { Item, MessageItem } from "../../types/item.ts";
import { newId } from "../../util/ids.ts";
import type { Attachment } from "./images.ts";
import { textOf } from "./reader.ts";

export interface Said {
  text: string;
  images: readonly Attachment[];
}

/** As it is shown. */
export function shownText({ text, images }: Said): string {
  return text + images.map(({ name }) => `\n[image: ${name}]`).join("");
}

/** One message of the person. */
export function messageOf({ text, images }: Said): MessageItem {
  return {
    type: "message",
    id: newId("msg"),
    role: "user",
    status: "completed",
    content: [
      { type: "input_text", text },
      ...images.map(({ url }) => ({ type: "input_image" as const, image_url: url })),
    ],
  };
}

/** Takes out what was said so, where that is among them. */
export function takeOut(said: Said[], item: Item): void {
  if (item.type !== "message" || item.role !== "user") return;
  const at = said.findIndex((one) => textOf(messageOf(one)) === textOf(item));
  if (at !== -1) said.splice(at, 1);
}

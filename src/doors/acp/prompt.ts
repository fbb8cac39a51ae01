/**
 * A prompt's blocks → what the engine is asked.
 *
 * Invariant: nothing of a prompt is left out in silence: what a model cannot be shown is refused. Without images it is
 * one text, which any process can be handed.
 */
import type { ContentBlock } from "@agentclientprotocol/sdk/unstable";
import type { ContentPart, Item } from "../../types/item.ts";
import { newId } from "../../util/ids.ts";
import { invalidParams } from "./errors.ts";

const IMAGE = /^image\/(?:png|jpeg|gif|webp)$/;

/** Throws an error of JSON-RPC where a block cannot be used, or nothing is said at all. */
export function inputOf(blocks: readonly ContentBlock[]): string | Item[] {
  const parts: ContentPart[] = [];
  /** Contents of files, behind what was said about them. */
  const attached: ContentPart[] = [];
  const say = (list: ContentPart[], text: string) => {
    const last = list.at(-1);
    if (last?.type === "input_text") last.text += text;
    else list.push({ type: "input_text", text });
  };
  for (const [at, block] of blocks.entries()) {
    switch (block.type) {
      case "text":
        say(parts, block.text);
        break;
      case "image":
        parts.push(imageOf(block.data, block.mimeType, `prompt[${at}]`));
        break;
      case "resource_link":
        say(parts, `[@${block.name}](${block.uri})`);
        break;
      case "resource": {
        const { resource } = block;
        say(parts, `[@${nameOf(resource.uri)}](${resource.uri})`);
        if ("text" in resource) say(attached, attachment(resource.uri, resource.text));
        else attached.push(imageOf(resource.blob, resource.mimeType ?? "", `prompt[${at}].resource`));
        break;
      }
      default:
        throw invalidParams(`prompt[${at}]: ${block.type} cannot be shown to a model; use text, image or resource`);
    }
  }
  const content = [...parts];
  for (const part of attached) {
    if (part.type === "input_text") say(content, part.text);
    else content.push(part);
  }
  const [only, second] = content;
  if (!content.some((part) => part.type !== "input_text" || part.text.trim() !== ""))
    throw invalidParams("the prompt is empty");
  if (only?.type === "input_text" && second === undefined) return only.text;
  return [{ type: "message", id: newId("msg"), role: "user", status: "completed", content }];
}

function imageOf(data: string, mimeType: string, where: string): ContentPart {
  if (!IMAGE.test(mimeType))
    throw invalidParams(`${where}: ${mimeType || "a file of unknown type"} cannot be shown to a model`);
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(data)) throw invalidParams(`${where}: the data is no base64`);
  return { type: "input_image", image_url: `data:${mimeType};base64,${data}` };
}

function attachment(uri: string, text: string): string {
  return `\n\n<context ref="${uri.replaceAll('"', "%22")}">\n${text}\n</context>`;
}

function nameOf(uri: string): string {
  const path = uri.replace(/[?#].*$/, "").replace(/\/+$/, "");
  return path.slice(path.lastIndexOf("/") + 1) || uri;
}

/** The first words, for a title. */
export function wordsOf(input: string | readonly Item[]): string {
  if (typeof input === "string") return input;
  const parts = input.flatMap((item) => (item.type === "message" ? item.content : []));
  return parts.map((part) => (part.type === "input_text" ? part.text : "[image]")).join(" ");
}

/** `/name rest` where it is a skill: asks for it by name. */
export function withSkill(input: string | Item[], skills: readonly { name: string }[]): string | Item[] {
  if (typeof input !== "string") return input;
  const [, name = "", rest = ""] = /^\/(\S+)\s*([\s\S]*)$/.exec(input) ?? [];
  if (!skills.some((skill) => skill.name === name)) return input;
  return `Use the skill "${name}": read it with the tool skill first, and do what it says.\n\n${rest}`.trimEnd();
}

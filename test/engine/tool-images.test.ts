/** Images that tools bring: they reach a model that sees, and stop nobody who talks to one that does not. */
import { describe, expect, test } from "vitest";
import { imageKind, imageOf, MAX_IMAGE_BYTES } from "../../src/util/images.ts";
import { toolOf } from "../support.ts";
import { talkWith } from "./talk.ts";

const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";
const picture = { type: "input_image" as const, image_url: `data:image/png;base64,${PIXEL}` };
const looks = toolOf("look", async () => ({ text: "[Image: image/png]", images: [picture] }));

interface Message {
  role: string;
  content: unknown;
}

const shot = [
  { type: "text", text: expect.stringContaining("tool results above") },
  { type: "image_url", image_url: { url: picture.image_url } },
];

const messagesOf = (request: { body: unknown } | undefined) =>
  (request?.body as { messages: Message[] } | undefined)?.messages ?? [];

const script = ({ body }: { body: unknown }) =>
  messagesOf({ body }).some(({ role }) => role === "tool")
    ? { text: "a red dot" }
    : {
        calls: [
          { name: "look", arguments: {} },
          { name: "look", arguments: {} },
        ],
      };

describe("an image that a tool brings", () => {
  test("stands behind the results of its answer, and stays there in the next turn", async () => {
    const { bench, say } = await talkWith(script, {}, { toolList: [looks] });
    const node = await say("what do you see?");
    expect(node.status).toBe("completed");
    const [, second] = bench.upstream.requests;
    expect(
      messagesOf(second)
        .map(({ role }) => role)
        .slice(-5),
    ).toEqual(["user", "assistant", "tool", "tool", "user"]);
    expect(messagesOf(second).at(-1)?.content).toEqual([...shot, shot[1]]);
    await say("and now?", node.id);
    const third = messagesOf(bench.upstream.requests.at(-1));
    expect(third.map(({ role }) => role).slice(-5)).toEqual(["tool", "tool", "user", "assistant", "user"]);
    expect(third.at(-3)?.content).toEqual([...shot, shot[1]]);
  });

  test.each([
    [400, "Invalid content type. image_url is only supported by certain models."],
    [404, "No endpoints found that support image input"],
    [500, "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj"],
  ])(
    "is left out for a model that refuses it with %i, which is asked once more and never again",
    async (status, message) => {
      const { bench, say } = await talkWith(
        (request) => {
          if (!JSON.stringify(request.body).includes("image_url")) return script(request);
          return { status, body: { error: { message } } };
        },
        { retries: 0 },
        { toolList: [looks] },
      );
      const node = await say("what do you see?");
      expect(node.status).toBe("completed");
      expect(bench.upstream.requests).toHaveLength(3);
      expect(messagesOf(bench.upstream.requests[2]).at(-1)).toMatchObject({
        role: "tool",
        content: "[Image: image/png]",
      });
      await say("and now?", node.id);
      expect(bench.upstream.requests).toHaveLength(4);
    },
  );

  test("of a person is not taken away from a model that refuses it", async () => {
    const { bench, fixture } = await talkWith(
      () => ({ status: 400, body: { error: { message: "images are not supported" } } }),
      { retries: 0 },
    );
    const content = [{ type: "input_text" as const, text: "see" }, picture];
    const input = [
      { type: "message" as const, id: "msg_1", role: "user" as const, status: "completed" as const, content },
    ];
    const { id } = await fixture.engine.start({ input, workspace: "/", door: "test", conversation: null });
    expect(await fixture.engine.wait(id)).toMatchObject({ status: "failed", error: { code: "upstream_bad_request" } });
    expect(bench.upstream.requests).toHaveLength(1);
  });
});

describe("what counts as an image", () => {
  test.each([
    ["image/png", PIXEL, true],
    ["image/jpg", PIXEL, true],
    ["image/svg+xml", PIXEL, false],
    ["image/png", "<script>", false],
    ["image/png", "", false],
    ["image/png", "A".repeat((MAX_IMAGE_BYTES * 4) / 3 + 8), false],
  ])("%s", (kind, data, wanted) => {
    expect(imageOf(kind, data) !== undefined).toBe(wanted);
  });

  test("a file's kind is told by how it begins", () => {
    expect(imageKind(Buffer.from(PIXEL, "base64"))).toBe("image/png");
    expect(imageKind(Buffer.from("ffd8ffe000", "hex"))).toBe("image/jpeg");
    expect(imageKind(Buffer.from("GIF89a"))).toBe("image/gif");
    expect(imageKind(Buffer.from("RIFF\u0000\u0000\u0000\u0000WEBPVP8"))).toBe("image/webp");
    expect(imageKind(Buffer.from("PNG"))).toBeUndefined();
  });
});

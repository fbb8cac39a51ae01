/** What keys do at a screen on a real app: nothing that was typed is lost, and a key ends one thing. */
import { stripVTControlCharacters } from "node:util";
import { expect, test } from "vitest";
import { HelpView } from "../../src/doors/tui/help-view.ts";
import { PickPanel } from "../../src/doors/tui/pick.ts";
import { directoryText } from "../../src/doors/tui/status.ts";
import { lookFor } from "../../src/doors/tui/style.ts";
import { gate, type OpenedScreen, open, SOON, screenOf } from "./opened.ts";

const CTRL_C = "\u0003";
const ESCAPE = "\u001b";

async function opened(): Promise<OpenedScreen> {
  const { options } = await open();
  return screenOf(options);
}

const running = ({ screen }: OpenedScreen) => expect.poll(() => screen.session?.running, SOON).toBeDefined();
const idle = ({ screen }: OpenedScreen) => expect.poll(() => screen.session?.running, SOON).toBeUndefined();

test.each([CTRL_C, ESCAPE])(
  "V4 what was queued is in the editor again when the turn is cancelled (key %j)",
  async (key) => {
    const on = await opened();
    const { screen, type } = on;
    type("wait");
    await running(on);
    const id = screen.session?.running?.id;
    for (const text of ["then this", "and this"]) {
      screen.editor.setText(text);
      screen.handleInput("\u001b\r");
    }
    await expect.poll(() => screen.session?.queue.length, SOON).toBe(2);
    screen.editor.setText("half a thought");
    screen.handleInput(key);
    expect(screen.editor.getText()).toBe("then this\n\nand this\n\nhalf a thought");
    await idle(on);
    expect(screen.session?.head).toBe(id);
    expect(screen.session?.queue).toEqual([]);
  },
);

test("V4 a second Ctrl-C leaves, with exit code 130, but not a turn that has begun since the first", async () => {
  const on = await opened();
  const { screen, type, left } = on;
  screen.handleInput(CTRL_C);
  type("wait");
  await running(on);
  screen.handleInput(CTRL_C);
  expect(left).toEqual([]);
  await idle(on);
  screen.handleInput(CTRL_C);
  expect(left).toEqual([130]);
});

test("V7 what is taken back stands before what is typed", async () => {
  const on = await opened();
  const { screen, type } = on;
  type("first");
  await expect.poll(() => screen.session?.head, SOON).toBeDefined();
  await idle(on);
  type("/undo");
  screen.editor.setText("typed");
  await expect.poll(() => screen.editor.getText(), SOON).toBe("first\n\ntyped");
  type("wait");
  await running(on);
  screen.editor.setText("queued");
  screen.handleInput("\u001b\r");
  await expect.poll(() => screen.session?.queue.length, SOON).toBe(1);
  screen.editor.setText("typed");
  screen.handleInput("\u001b[1;3A");
  expect(screen.editor.getText()).toBe("queued\n\ntyped");
  gate.open();
});

test("V4 Ctrl-C closes a view or a list, and nothing else", async () => {
  const on = await opened();
  const { screen, type, left } = on;
  type("wait");
  await running(on);
  for (const command of ["/tree", "/help"]) {
    type(command);
    await expect.poll(() => screen.view, SOON).toBeDefined();
    screen.handleInput(CTRL_C);
    expect(screen.view).toBeUndefined();
  }
  type("/model");
  await expect.poll(() => screen.panel, SOON).toBeInstanceOf(PickPanel);
  screen.handleInput(CTRL_C);
  expect(screen.panel).toBeUndefined();
  expect(screen.session?.running?.cancelled).toBe(false);
  expect(left).toEqual([]);
  gate.open();
});

test("V2 a question that is left for later: the line above the editor says what the turn waits for", async () => {
  const on = await opened();
  const { screen, type, drawn } = on;
  type("write");
  await expect.poll(() => screen.panel, SOON).toBeDefined();
  // Keys count only once nothing was typed for a while.
  const leave = () => {
    drawn();
    screen.handleInput(ESCAPE);
    return screen.panel;
  };
  await expect.poll(leave, { ...SOON, interval: 500 }).toBeUndefined();
  await expect.poll(drawn, SOON).toContain("waits for an answer: /approve shows the question");
  expect(drawn()).not.toContain("calling write");
  type("/approve");
  await expect.poll(drawn, SOON).toContain("write asks for permission");
  expect(drawn()).not.toContain("of another conversation");
});

test("V2 a question of another conversation says where it comes from", async () => {
  const { options, app } = await open();
  await app.engine.start({ input: "please write it", workspace: app.workspace, door: "http", model: "scripted" });
  const { screen, type, drawn } = await screenOf(options);
  await expect.poll(async () => (await app.store.approvals({ status: "pending" })).length, SOON).toBe(1);
  type("/approve");
  await expect.poll(() => screen.panel, SOON).toBeDefined();
  await expect.poll(drawn, SOON).toContain("of another conversation: please write it");
  expect(drawn()).toContain(`${app.workspace} · door: http`);
});

test("V4 who leaves is told what becomes of the turn", async () => {
  const on = await opened();
  const { control, screen, type } = on;
  type("wait");
  await running(on);
  const id = screen.session?.running?.id.slice(-8);
  expect(await control.lastWords()).toBe(`${id} was left in the middle. Go on: rotunda resume ${id}\n`);
  screen.handleInput(ESCAPE);
  expect(await control.lastWords()).toBe(`Go on with: rotunda chat --from ${id}\n`);
});

test("V7 an unknown name is answered with those that there are, and a list names the one in force", async () => {
  const { screen, type, drawn } = await opened();
  type("/model nonsense");
  await expect.poll(drawn, SOON).toContain("There is no model nonsense. There is: scripted");
  type("/agent nobody");
  await expect.poll(drawn, SOON).toMatch(/There is no profile nobody\. There is: .*general/);
  type("/agent");
  await expect.poll(() => screen.panel, SOON).toBeInstanceOf(PickPanel);
  expect(drawn()).toMatch(/→ general +answers now · /);
});

test("a list keeps what tells its entries apart, and shows where it cuts", () => {
  const items = ["runs", "waits"].map((state) => ({
    value: state,
    label: `a title that is much too long for ${state}, which nobody reads`,
    description: `k3v9abcd · ${state} · 2026-11-22 10:00 · a model with quite a long name`,
  }));
  const look = lookFor(false);
  const panel = new PickPanel("Go on with", items, look, undefined, () => undefined);
  const [, first = "", second = ""] = panel.draw({ width: 70, look, now: 0 });
  for (const line of [first, second])
    expect(stripVTControlCharacters(line)).toMatch(/a title that is.*… +k3v9abcd · .*…/);
});

test("/help fits a terminal of 80 to 24, commands apart from keys, and every line of it can be seen", () => {
  const rows = (name: string) =>
    Array.from({ length: 16 }, (_, at) => [`${name}${at}`, `what ${name} ${at} does`] as const);
  const view = new HelpView(rows("/command"), rows("Key"), () => undefined);
  const canvas = { width: 80, look: lookFor(false), now: 0 };
  const seen = new Set<string>();
  for (let times = 0; times < 40; times++) {
    const lines = view.draw(canvas, 24);
    expect(lines).toHaveLength(24);
    for (const line of lines) seen.add(line.trim());
    view.key("j");
  }
  for (const name of ["/command", "Key"])
    for (let at = 0; at < 16; at++) expect([...seen].some((line) => line.startsWith(`${name}${at} `))).toBe(true);
  expect(view.draw(canvas, 24)[0]).not.toContain("Commands");
});

test.each([
  ["/home/ada", "/home/ada", 40, "~"],
  ["/home/ada/work/cart", "/home/ada", 40, "~/work/cart"],
  ["/home/adam/cart", "/home/ada", 40, "/home/adam/cart"],
  ["/var/lib/somewhere/quite/deep/down/cart", "/home/ada", 40, "…/quite/deep/down/cart"],
  ["/var/lib/cart", "/home/ada", 8, "…/cart"],
  ["/var/lib/cart", "/home/ada", 3, ""],
])("the directory %s of %s in %i columns is %s", (path, home, space, text) => {
  expect(directoryText(path, home, space)).toBe(text);
});

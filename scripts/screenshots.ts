/**
 * Pictures of the page for the documentation: the project's own server, a scripted model, a real browser.
 *
 * Invariant: what is seen is what the program does; only the model's words are written down here. `--all FOLDER` takes
 * every view, in both colour schemes and on a phone, for whoever works on the page.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { type Browser, chromium, type Page } from "playwright-core";
import { startUpstream, type UpstreamStep } from "../src/testing/upstream.ts";

const BROWSER =
  process.env.ROTUNDA_TEST_CHROMIUM ?? ["/usr/bin/chromium", "/usr/bin/google-chrome"].find((path) => existsSync(path));
/** Bytes of one picture. */
const LARGEST = 150_000;

const PRICES = { prompt_tokens: 3_140, completion_tokens: 412, total_tokens: 3_552, cost: 0.0184 };

const ANSWER = `The discount belongs in \`total\`, before the tax is added. Two things stand in its way:

1. **Rounding.** \`total\` adds floats, so \`0.1 + 0.2\` leaks into the receipt.
2. **Order.** \`tax\` is applied per item, a discount per cart.

\`\`\`js
export function total(items, discount = 0) {
  const cents = items.reduce((sum, { price }) => sum + Math.round(price * 100), 0);
  return Math.round(cents * (1 - discount)) / 100;
}
\`\`\`

| case | before | after |
| --- | --- | --- |
| 3 × 0.10 | 0.30000000000000004 | 0.30 |
| 10 % off 20.00 | – | 18.00 |
`;

const TODOS = {
  todos: [
    { content: "Read src/cart.js", status: "completed", activeForm: "Reading src/cart.js" },
    { content: "Change total()", status: "in_progress", activeForm: "Changing total()" },
    { content: "Run the tests", status: "pending", activeForm: "Running the tests" },
  ],
};

/** What the model says, by what it was asked last and how often it was called since. */
function step(question: string, calls: number, model: string): UpstreamStep {
  const usage = model === "small" ? { ...PRICES, cost: 0.0021 } : PRICES;
  if (/discount/.test(question)) {
    if (calls === 0) {
      const reasoning =
        "The cart adds prices as floats. A discount must come before the tax, and cents are safer than floats.";
      return {
        reasoning: [reasoning],
        calls: [
          { name: "grep", arguments: { pattern: "TODO", path: "src" } },
          { name: "read", arguments: { files: [{ file_path: "src/cart.js" }] } },
        ],
        usage,
      };
    }
    return { text: ANSWER, usage };
  }
  if (/change it/i.test(question)) {
    if (calls === 0)
      return {
        text: "I change `total` and then run the tests.",
        calls: [{ name: "TodoWrite", arguments: TODOS }],
        usage,
      };
    if (calls === 1) {
      const [before, after] = [
        "  return items.reduce((sum, item) => sum + item.price, 0);",
        "  const cents = items.reduce((sum, { price }) => sum + Math.round(price * 100), 0);\n  return Math.round(cents * (1 - discount)) / 100;",
      ];
      return {
        calls: [{ name: "edit", arguments: { file_path: "src/cart.js", old_string: before, new_string: after } }],
        usage,
      };
    }
    return { text: "Done: `total` takes a discount, and the tests pass.", usage };
  }
  if (/explore/.test(question) && calls === 0) {
    return {
      calls: [
        {
          name: "task",
          arguments: { description: "Find callers of total", task: "Find all callers of total", agent_type: "explore" },
        },
      ],
      usage,
    };
  }
  if (/callers/.test(question)) return { text: "`total` is called in one place: `src/receipt.js`, line 12.", usage };
  return {
    text: "Three places use `total`: the receipt, the preview and the export. None of them rounds by itself, so the change is safe.",
    usage,
  };
}

interface Demo {
  url: string;
  token: string;
  stop: () => Promise<void>;
  ask: <T>(path: string, json?: unknown) => Promise<T>;
}

async function startDemo(): Promise<Demo> {
  const folder = mkdtempSync(join(tmpdir(), "rotunda-pictures-"));
  const workspace = join(folder, "shop");
  mkdirSync(join(workspace, "src"), { recursive: true });
  writeFileSync(
    join(workspace, "src/cart.js"),
    "// TODO: discounts\nexport function total(items) {\n  return items.reduce((sum, item) => sum + item.price, 0);\n}\n",
  );
  writeFileSync(join(workspace, "package.json"), '{ "name": "shop" }\n');
  const upstream = await startUpstream((request) => {
    const messages = request.body.messages as unknown as { role: string; content: unknown }[];
    const at = messages.findLastIndex(({ role }) => role === "user");
    const calls = messages.slice(at).filter(({ role }) => role === "assistant").length;
    return step(JSON.stringify(messages[at]?.content), calls, String(request.body.model));
  });
  const model = (id: string) => ({
    id,
    baseUrl: upstream.url,
    model: id,
    apiKey: "sk-demo-0123456789",
    contextWindow: 200_000,
  });
  const server = {
    command: process.execPath,
    args: [resolve("node_modules/@modelcontextprotocol/server-filesystem/dist/index.js"), workspace],
  };
  const config = {
    models: [model("large"), model("small")],
    mcpServers: { files: server, issues: { url: "http://127.0.0.1:9/mcp" } },
  };
  writeFileSync(join(folder, "rotunda.yaml"), JSON.stringify(config));
  const state = join(folder, "state");
  const env = {
    PATH: process.env.PATH,
    HOME: folder,
    ROTUNDA_HOME: state,
    ROTUNDA_CONFIG: join(folder, "rotunda.yaml"),
    NO_COLOR: "1",
  };
  const child = spawn(process.execPath, [resolve("bin/rotunda.js"), "serve", "--port", "0", "--quiet"], {
    cwd: workspace,
    env,
    stdio: ["ignore", "pipe", "inherit"],
  });
  const url = await addressOf(child);
  const token = readFileSync(join(state, "token"), "utf8").trim();
  const ask = async <T>(path: string, json?: unknown): Promise<T> => {
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    const answer = await fetch(
      url + path,
      json === undefined ? { headers } : { method: "POST", headers, body: JSON.stringify(json) },
    );
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    return (await answer.json()) as T;
  };
  const stop = async () => {
    const gone = new Promise((done) => child.once("exit", done));
    child.kill("SIGTERM");
    await gone;
    await upstream.close();
    rmSync(folder, { recursive: true, force: true });
  };
  return { url, token, stop, ask };
}

function addressOf(child: ChildProcess): Promise<string> {
  return new Promise((found, failed) => {
    let said = "";
    child.stdout?.setEncoding("utf8").on("data", (text: string) => {
      said += text;
      const [, url] = /listening on (http:\S+)/.exec(said) ?? [];
      if (url) found(url);
    });
    child.once("exit", () => failed(new Error("the server did not start")));
  });
}

interface Filled {
  conversation: string;
  waiting: string;
  first: string;
  large: string;
  other: string;
}

interface Said {
  id: string;
  status: string;
}

/** A conversation with branches, another model, a sub-agent and a question that waits. Returns ids to look at. */
async function fill({ ask }: Demo): Promise<Filled> {
  const { id: conversation } = await ask<{ id: string }>("/v1/conversations", {});
  await ask(`/v1/conversations/${conversation}`, { title: "A discount for the cart" });
  const say = (input: string, more: object) => ask<Said>("/v1/responses", { input, model: "large", ...more });
  const first = await say("Where does a discount belong in this code?", { conversation });
  await say("explore who calls total", { conversation });
  const waiting = await say("Good. Change it, please.", { conversation, background: true });
  const safe = (model: string) =>
    say("Is the change safe for everybody who calls it?", { previous_response_id: first.id, model });
  const large = await safe("large");
  const other = await safe("small");
  await say("And what about the preview?", { previous_response_id: other.id, model: "small" });
  await say("And what about the export?", { previous_response_id: other.id });
  for (;;) {
    const { approvals } = await ask<{ approvals: unknown[] }>("/v1/tool-approvals");
    if (approvals.length > 0) break;
    await new Promise((done) => setTimeout(done, 50));
  }
  return { conversation, waiting: waiting.id, first: first.id, large: large.id, other: other.id };
}

interface Look {
  name: string;
  path: string;
  dark: boolean;
  phone: boolean;
  /** What must be seen first. */
  wait: string;
}

async function picture(browser: Browser, demo: Demo, look: Look, folder: string): Promise<void> {
  const viewport = look.phone ? { width: 360, height: 740 } : { width: 1200, height: 780 };
  const context = await browser.newContext({
    viewport,
    colorScheme: look.dark ? "dark" : "light",
    hasTouch: look.phone,
    reducedMotion: "reduce",
  });
  const page: Page = await context.newPage();
  const { url } = await demo.ask<{ url: string }>("/rotunda/sign-in-link", {});
  await page.goto(url);
  await page.locator("#main").waitFor();
  await page.evaluate(`history.pushState(null, "", ${JSON.stringify(look.path)})`);
  await page.reload();
  await page.locator(look.wait).first().waitFor({ timeout: 10_000 });
  await page.waitForTimeout(600);
  const path = join(folder, `page-${look.name}.png`);
  await page.screenshot({ path });
  await context.close();
  const { size } = statSync(path);
  process.stdout.write(`${path}: ${size} bytes\n`);
  if (size > LARGEST) throw new Error(`${path} has ${size} bytes; ${LARGEST} are allowed`);
}

async function main(): Promise<void> {
  if (!BROWSER) throw new Error("there is no chromium on this machine (apt-get install chromium)");
  const at = process.argv.indexOf("--all");
  const folder = at < 0 ? "docs/images" : (process.argv[at + 1] ?? ".");
  mkdirSync(folder, { recursive: true });
  const demo = await startDemo();
  const browser = await chromium.launch({
    executablePath: BROWSER,
    args: process.getuid?.() === 0 ? ["--no-sandbox"] : [],
  });
  try {
    const { conversation, waiting, first, large, other } = await fill(demo);
    const chat = { path: `/c/${conversation}`, wait: ".approval" };
    const tree = { path: `/tree/${waiting}`, wait: ".tree-row" };
    const looks: Look[] = [
      { name: "chat", ...chat, dark: true, phone: false },
      { name: "tree", ...tree, dark: false, phone: false },
      { name: "phone", ...chat, dark: false, phone: true },
      { name: "compare", path: `/compare/${large}/${other}`, wait: ".side .answer", dark: false, phone: false },
    ];
    const views: [string, string, string][] = [
      ["chat", chat.path, chat.wait],
      ["answer", `/r/${first}`, ".turn-foot"],
      ["new", "/", ".welcome"],
      ["tree", tree.path, tree.wait],
      ["compare", `/compare/${large}/${other}`, ".side .answer"],
      ["runs", "/runs", ".run"],
      ["schedules", "/schedules", ".form"],
      ["approvals", "/approvals", ".approval"],
      ["search", "/search?q=total", ".hits li"],
      ["usage", "/usage", ".chart"],
      ["models", "/models", ".card"],
      ["hub", "/hub", ".card"],
      ["settings", "/settings", ".form"],
    ];
    const all = views.flatMap(([name, path, wait]) =>
      [false, true].flatMap((dark) =>
        [false, true].map((phone) => ({
          name: `${name}-${dark ? "dark" : "light"}${phone ? "-phone" : ""}`,
          path,
          wait,
          dark,
          phone,
        })),
      ),
    );
    const wanted = process.argv.includes("--only")
      ? all.filter(({ name }) => name.startsWith(process.argv.at(-1) ?? ""))
      : all;
    for (const look of at < 0 ? looks : wanted) await picture(browser, demo, look, folder);
  } finally {
    await browser.close();
    await demo.stop();
  }
}

await main();

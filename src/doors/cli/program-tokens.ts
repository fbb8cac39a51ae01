/** Names, flags and help of the commands about tokens and the audit log. Their code is imported when they run. */
import { type Command, Option } from "commander";
import { DEFAULT_SCOPES, scopes } from "../../types/token.ts";
import type { CommandContext } from "./context.ts";

/** What the command line has for every command. */
interface Wiring<Options> {
  act(options: Options, run: (context: CommandContext) => Promise<number>): Promise<void>;
  /** Adds the flags of every command. */
  common(command: Command): Command;
  /** The context, with `--config` applied. */
  configured(context: CommandContext, options: { config?: string }): Promise<CommandContext>;
  number(text: string): number;
  count(text: string): number;
}

export function addTokens<Options>(program: Command, wiring: Wiring<Options>): void {
  const { act, common, configured } = wiring;
  const token = program.command("token").description("Who may come in through the server, and what for");
  common(token.command("show", { isDefault: true }))
    .description("Print the local token (also: rotunda token); whoever has it may do everything")
    .action(async (options) => act(options, async (context) => (await import("./tokens.ts")).tokenShow(context)));
  addTokenAdd(token, wiring);
  common(token.command("list"))
    .description("The tokens that were made, without their secrets")
    .option("--json", "as JSON")
    .action(async (options) =>
      act(options, async (context) =>
        (await import("./tokens.ts")).tokenList(await configured(context, options), options),
      ),
    );
  common(token.command("revoke"))
    .description("Take a token back: it opens nothing from then on")
    .argument("<name>", "its name, or its id")
    .addHelpText("after", "\nExample:\n  rotunda token revoke phone")
    .action(async (name, options) =>
      act(options, async (context) =>
        (await import("./tokens.ts")).tokenRevoke(await configured(context, options), name),
      ),
    );
  addBudgets(program, wiring);
  addRetention(program, wiring);
  addSchedules(program, wiring);
  addAudit(program, wiring);
}

function addBudgets<Options>(program: Command, { act, common, configured, number, count }: Wiring<Options>): void {
  const budget = program.command("budget").description("What may be used over many responses; at the limit they wait");
  common(budget.command("list", { isDefault: true }))
    .description("The budgets, and what is used of them (also: rotunda budget)")
    .option("--json", "as JSON")
    .action(async (options) =>
      act(options, async (context) =>
        (await import("./budgets.ts")).budgetList(await configured(context, options), options),
      ),
    );
  common(budget.command("set"))
    .description("Set or raise one")
    .argument("<for>", "all, profile/NAME, model/ID, token/NAME, response/ID (with its sub-agents) or tree/ID")
    .option(
      "--cost <dollars>",
      "US dollars at most, where the models tell their cost or their price is configured",
      number,
    )
    .option("--tokens <count>", "model tokens at most", count)
    .option("--seconds <count>", "time that responses run at most", count)
    .option("--agents <count>", "sub-agents at most", count)
    .addOption(
      new Option("--per <period>", "of UTC (default: as it was; of a new one: total)").choices([
        "total",
        "day",
        "month",
      ]),
    )
    .option("--json", "as JSON")
    .addHelpText(
      "after",
      "\nExamples:\n  rotunda budget set profile/general --cost 5 --per day\n  rotunda budget set tree/1a2b3c4d --tokens 500000",
    )
    .action(async (key, options) =>
      act(options, async (context) =>
        (await import("./budgets.ts")).budgetSet(await configured(context, options), key, options),
      ),
    );
  common(budget.command("remove"))
    .description("Remove one; what the configuration says about it holds again, and counts from zero")
    .argument("<for>", "as it was set")
    .action(async (key, options) =>
      act(options, async (context) =>
        (await import("./budgets.ts")).budgetRemove(await configured(context, options), key),
      ),
    );
}

function addTokenAdd<Options>(token: Command, { act, common, configured, number, count }: Wiring<Options>): void {
  common(token.command("add"))
    .description("Make a token; it is printed once")
    .argument("<name>", "what to call it")
    .option("--scopes <list>", `of ${scopes.join(", ")} (default: ${DEFAULT_SCOPES.join(",")})`)
    .option("--profiles <globs>", "only the profiles with these names (default: all)")
    .option("--expires <time>", "how long it is good for: 30d, 12h, 90m (default: until it is revoked)")
    .addOption(
      new Option("--events <dialect>", "of its streams on chat completions")
        .choices(["openai", "speakmcp"])
        .default("openai"),
    )
    .option("--requests-per-second <count>", "requests at most", number)
    .option("--concurrent-runs <count>", "responses that run at once at most", count)
    .option("--streams <count>", "open event streams at most", count)
    .option("--tokens-per-day <count>", "model tokens at most", count)
    .option("--cost-per-day <dollars>", "US dollars at most, where the models tell their cost", number)
    .option("--json", "as JSON, the token in it")
    .addHelpText(
      "after",
      `
Examples:
  rotunda token add phone --expires 90d
  rotunda token add ci --scopes chat,responses:read --profiles "explore,plan" --cost-per-day 2
  rotunda token add operator --scopes chat,admin,settings,mcp:admin,approve`,
    )
    .action(async (name, options) =>
      act(options, async (context) =>
        (await import("./tokens.ts")).tokenAdd(await configured(context, options), name, options),
      ),
    );
}

function addRetention<Options>(program: Command, { act, common, configured }: Wiring<Options>): void {
  common(program.command("prune"))
    .description("Delete what is older than it is to be kept (keep: in rotunda.yaml, of a profile, of a conversation)")
    .option("--older-than <time>", "everything that ended longer ago than this: 30d, 12h")
    .option("--dry-run", "only count")
    .option("--json", "as JSON")
    .addHelpText("after", "\nExample:\n  rotunda prune --older-than 90d --dry-run")
    .action(async (options) =>
      act(options, async (context) =>
        (await import("./retention.ts")).pruneNow(await configured(context, options), options),
      ),
    );
  common(program.command("keep"))
    .description("How long a conversation is kept after its last answer, whatever is configured")
    .argument("<conversation>", "its name, or its id")
    .argument("<time>", "30d, 12h, forever")
    .action(async (conversation, time, options) =>
      act(options, async (context) =>
        (await import("./retention.ts")).keepConversation(await configured(context, options), conversation, time),
      ),
    );
}

function addSchedules<Options>(program: Command, { act, common, configured }: Wiring<Options>): void {
  const schedule = program.command("schedule").description("What a server starts by itself, again and again or later");
  common(schedule.command("list", { isDefault: true }))
    .description("What is scheduled, when it is due and what it last led to (also: rotunda schedule)")
    .option("--json", "as JSON")
    .action(async (options) =>
      act(options, async (context) =>
        (await import("./schedules.ts")).scheduleList(await configured(context, options), options),
      ),
    );
  common(schedule.command("add"))
    .description("Ask something by the clock")
    .argument("<name>", "what to call it")
    .argument("<prompt...>", "what is asked each time")
    .option(
      "--cron <expression>",
      "minute hour day month weekday (six fields: seconds in front), or @hourly, @daily, @weekly",
    )
    .option("--at <time>", "once: 2030-01-31T07:00:00Z")
    .option("--in <time>", "once: 30s, 90m, 12h, 2d")
    .option("--timezone <name>", "of the expression, as Europe/Paris (default: UTC)")
    .option("--agent <profile>", "who answers")
    .option("--model <id>", "with this model")
    .option("--conversation <name>", "goes on with it each time (default: a new one each time)")
    .option("--json", "as JSON")
    .addHelpText(
      "after",
      '\nExample:\n  rotunda schedule add brief --cron "0 7 * * 1-5" "What has changed since yesterday?"',
    )
    .action(async (name, words, options) =>
      act(options, async (context) =>
        (await import("./schedules.ts")).scheduleAdd(await configured(context, options), name, words, options),
      ),
    );
  common(schedule.command("remove"))
    .description("Remove one; what it has started stays")
    .argument("<name>", "its name, or its id")
    .action(async (name, options) =>
      act(options, async (context) =>
        (await import("./schedules.ts")).scheduleRemove(await configured(context, options), name),
      ),
    );
}

function addAudit<Options>(program: Command, { act, common, configured, count }: Wiring<Options>): void {
  const audit = program.command("audit").description("Who did what, when, and who allowed it");
  common(audit.command("list", { isDefault: true }))
    .description("The newest records, the last one at the end (also: rotunda audit)")
    .option("--limit <count>", "records at most", count, 20)
    .option("--json", "as JSON")
    .addHelpText("after", "\nExamples:\n  rotunda audit\n  rotunda audit --limit 100 --json")
    .action(async (options) =>
      act(options, async (context) =>
        (await import("./audit.ts")).auditList(await configured(context, options), options),
      ),
    );
  common(audit.command("verify"))
    .description("Check the whole chain of hashes; exit code 1 names the first record that does not fit")
    .option("--json", "as JSON")
    .action(async (options) =>
      act(options, async (context) =>
        (await import("./audit.ts")).auditVerify(await configured(context, options), options),
      ),
    );
}

/**
 * The shape of `rotunda.yaml`. `schema/rotunda.schema.json` is made from this file.
 *
 * Invariant: what this accepts, `normalize.ts` understands; an unknown key is an error, so that a typing
 * mistake never silently changes nothing.
 */
import { z } from "zod";
import { budgetFor } from "../types/budget.ts";
import { outboxEvents } from "../types/outbox.ts";
import { keepPattern } from "../util/duration.ts";
import { isRule } from "../util/path-pattern.ts";

const strings = z.array(z.string());
const stringMap = z.record(z.string(), z.coerce.string());
const mode = z.enum(["ask", "accept-edits", "plan", "auto"]);
const positive = z.coerce.number().positive();
const amount = z.coerce.number().min(0);

const ruleList = z.array(z.string().refine(isRule, "a rule reads tool or tool(pattern)"));

const keep = z.string().regex(keepPattern, "it reads 90m, 12h, 30d, 4w, 1y or forever");

const rules = {
  allow: ruleList.optional().describe("Rules `tool` or `tool(pattern)` that need no question"),
  ask: ruleList.optional().describe("Rules that always ask"),
  deny: ruleList.optional().describe("Rules that never run; they beat every other"),
};

const model = z.strictObject({
  id: z.string().min(1).describe("The name that you use"),
  baseUrl: z.string().min(1).describe("Up to and including the version segment: https://api.example.com/v1"),
  apiKey: z.string().optional().describe("Better as a variable: see docs/configuration.md"),
  model: z.string().optional().describe("Name at the endpoint"),
  modelName: z.string().optional().describe("The same as `model` (Polybrain's word)"),
  headers: stringMap.optional(),
  query: stringMap.optional().describe("Added to every URL, as Azure's api-version"),
  reasoning: z.union([z.string(), z.record(z.string(), z.unknown())]).optional(),
  provider: z.enum(["openai", "openrouter"]).optional().describe("Dialect notes"),
  temperature: z.coerce.number().min(0).optional(),
  maxOutputTokens: positive.optional(),
  contextWindow: positive.optional(),
  body: z.record(z.string(), z.unknown()).optional().describe("Further fields of the request body"),
  timeouts: z
    .strictObject({
      connect: positive.optional(),
      headers: positive.optional(),
      idle: positive.optional(),
      total: positive.optional(),
    })
    .optional()
    .describe("Seconds"),
  retries: z.coerce.number().int().min(0).optional(),
  maxConcurrent: positive.int().optional().describe("Calls at once; the rest stand in line"),
  price: z
    .strictObject({ input: amount, output: amount, cached: amount.optional() })
    .optional()
    .describe("US dollars for a million tokens, for endpoints that do not say what a call has cost"),
  fallback: z.string().optional().describe("Model that answers when this one is out of reach"),
});

const agent = z.strictObject({
  protocol: z.enum(["claude-code", "acp"]).optional().describe("Default: claude-code for that id, else acp"),
  command: z.string().min(1).optional().describe("A name on the PATH, or an absolute path"),
  args: z.array(z.coerce.string()).optional(),
  env: stringMap.optional(),
  cwd: z.string().optional().describe("Default: the directory of the response"),
  model: z.string().optional().describe("The agent's own model"),
  maxConcurrent: positive.int().optional().describe("Processes at once; the rest queue. Default 4"),
  permissionMode: z
    .string()
    .refine((name) => name !== "bypassPermissions", "a profile says so: mode: auto and skipAgentPermissions: true")
    .optional()
    .describe("The agent's own mode. Default: by the mode of the response"),
  timeout: positive.optional().describe("Seconds for one answer"),
});

const serverTool = z.strictObject({
  access: z.enum(["read", "write", "run"]).optional(),
  idempotent: z.boolean().optional().describe("May run again when its outcome is not known"),
});

/** As above: other programs write more of it. */
const oauth = z.object({
  clientId: z.string().min(1).optional().describe("Of a client that was registered by hand"),
  clientSecret: z.string().min(1).optional().describe("Better as a variable"),
  privateKey: z.string().min(1).optional().describe("PEM; the client signs instead of knowing a secret"),
  algorithm: z.string().min(1).optional().describe("Of the signature; default ES256"),
  issuer: z.string().min(1).optional().describe("The only authorization server that may know this client"),
  scopes: strings.optional().describe("Asked for, beside those that the server demands"),
  scope: z.string().optional().describe("The same as `scopes`, words between spaces"),
  clientMetadataUrl: z
    .string()
    .regex(/^https:\/\/[^/]+\/./, "it is an https address with a path")
    .optional()
    .describe("A document that describes this client (CIMD)"),
  redirectPort: z.coerce.number().int().min(1).max(65_535).optional().describe("http://127.0.0.1:PORT/oauth/callback"),
  callbackPort: z.coerce.number().int().min(1).max(65_535).optional().describe("The same as `redirectPort`"),
  flow: z.enum(["authorization_code", "client_credentials"]).optional(),
  privateHosts: strings.optional().describe("Hosts of the login that may lie in a private network"),
});

/** The shape that other programs use; keys of theirs that mean nothing here are let pass. */
const mcpServer = z.object({
  command: z.string().optional(),
  args: z.array(z.coerce.string()).optional(),
  env: stringMap.optional(),
  cwd: z.string().optional(),
  type: z.string().optional(),
  transport: z.string().optional(),
  url: z.string().optional(),
  serverUrl: z.string().optional(),
  headers: stringMap.optional(),
  oauth: z.union([z.boolean(), oauth]).optional().describe("http: how to log in; false: never"),
  sampling: z.boolean().optional().describe("Old servers: it may ask a model, each time with a person's consent"),
  roots: z.boolean().optional().describe("Old servers: it is told the workspace"),
  disabled: z.boolean().optional(),
  enabled: z.boolean().optional(),
  timeout: positive.optional().describe("Seconds for one call"),
  startTimeout: positive.optional().describe("Seconds that the first model call waits for this server"),
  retry: z.enum(["safe", "always"]).optional(),
  sandbox: z.boolean().optional().describe("stdio: it writes only the workspace and a temporary folder"),
  tools: z.record(z.string(), serverTool).optional().describe("By glob over the server's own tool names"),
});

const limits = z.strictObject({
  turns: positive.optional().describe("Model calls"),
  seconds: positive.optional(),
  tokens: positive.optional(),
  callsPerAnswer: positive.optional(),
});

const profile = z.strictObject({
  description: z.string().optional(),
  instructions: z.string().optional().describe("Text, or ./file.md"),
  guidelines: z.string().optional().describe("Joins the prompt behind the instructions"),
  extends: z.string().optional(),
  model: z.string().optional(),
  temperature: z.coerce.number().min(0).optional(),
  maxOutputTokens: positive.optional(),
  maxTurns: positive.optional(),
  limits: limits.optional(),
  maxConcurrent: positive.int().optional().describe("Model calls at once; the rest stand in line"),
  keep: keep.optional().describe("How long its responses are kept after their end"),
  tools: strings.optional().describe("Globs over tool names; !glob leaves out"),
  servers: strings.optional().describe("Globs over MCP server names; !glob leaves out"),
  adminTools: strings.optional().describe("Globs over the names of admin tools, which it is offered besides"),
  readOnly: z.boolean().optional(),
  mode: mode.optional(),
  onApproval: z.enum(["auto", "wait", "return", "deny"]).optional().describe("When a call needs a person"),
  parallel: z.boolean().optional().describe("false: tool calls one after the other"),
  advice: z.boolean().optional(),
  permissions: z.strictObject(rules).optional(),
  skipAgentPermissions: z.boolean().optional().describe("In mode auto, an external agent asks nobody"),
});

const hook = z.union([
  z.string(),
  z.strictObject({
    command: z.string(),
    tools: strings.optional(),
    timeout: positive.optional(),
    required: z.boolean().optional().describe("Where it fails, the call is denied"),
  }),
]);

const hooks = z.array(hook);

const httpServer = z.strictObject({
  host: z.string().min(1).optional(),
  port: z.coerce.number().int().min(0).max(65_535).optional(),
  cors: z
    .array(z.string().regex(/^https?:\/\/[^/*]+$/, "an origin reads https://app.example.com"))
    .optional()
    .describe("Origins of pages that may ask"),
  bodyLimit: positive.optional().describe("Bytes of a request's body"),
  profile: z.string().optional().describe("Default profile of the HTTP doors"),
  webhooks: z
    .array(
      z.strictObject({
        url: z.string().min(1),
        secret: z.string().min(1),
        events: z.array(z.enum(outboxEvents)).optional(),
      }),
    )
    .optional(),
  notify: z.string().optional().describe("Shell command that is run when a response waits or ends"),
  allowRemoteAdmin: z.boolean().optional(),
  behindProxy: z.boolean().optional(),
});

const mcpDoor = z.strictObject({
  askModel: z.string().min(1).optional().describe("Who answers `ask` where nobody is named"),
  profile: z.string().min(1).optional().describe("Whose tools and limits hold where only a model is named"),
  oldNames: z
    .boolean()
    .optional()
    .describe("The Claude bridge's later tool names too: start, resume, status, cancel, query"),
  gateway: z
    .strictObject({
      prefix: z.boolean().optional().describe("False: own names where no other server has the same"),
      toolSearch: z.boolean().optional().describe("In place of all tools, one to find them and one to call them"),
      outputLimit: positive.optional().describe("Characters of text of a tool's result that are handed on at once"),
    })
    .optional()
    .describe("The addresses that hand on the MCP servers"),
});

const schedule = z.strictObject({
  name: z.string().min(1).max(100),
  cron: z
    .string()
    .min(1)
    .describe("Minute hour day month weekday, with seconds in front where there are six, or @daily"),
  timezone: z.string().min(1).optional().describe("As Europe/Paris. Default UTC"),
  input: z.string().min(1).describe("What is asked each time"),
  profile: z.string().min(1).optional(),
  model: z.string().min(1).optional(),
  conversation: z
    .string()
    .min(1)
    .optional()
    .describe("By name: each time goes on with it. Default: a new one each time"),
});

const budget = z.strictObject({
  for: z
    .string()
    .regex(budgetFor, "it reads all, token, profile, model, response, tree, or one of them as in profile/general")
    .describe(
      "all, profile/NAME, model/ID, token/ID; token, profile, model, response or tree: each has one of its own",
    ),
  per: z.enum(["total", "day", "month"]).optional().describe("Days and months of UTC. Default total"),
  cost: amount.optional().describe("US dollars"),
  tokens: amount.optional(),
  seconds: amount.optional().describe("Time that responses run"),
  agents: amount.optional().describe("Sub-agents that are started"),
});

const share = z.coerce.number().gt(0).max(1);

const compaction = z.strictObject({
  strategy: z.enum(["summary", "first-last", "none"]).optional(),
  at: share.optional().describe("Share of the model's window at which it happens; default 0.8"),
  keep: share.optional().describe("Share of the window that the newest items may fill and stay; default 0.25"),
  model: z.string().min(1).optional().describe("Who sums up; default: the model that answers"),
  messages: z.coerce.number().int().min(2).optional().describe("first-last: messages at most; default 500"),
});

export const configSchema = z.strictObject({
  $schema: z.string().optional(),
  models: z.array(model).optional().describe("The first one is the default"),
  agents: z
    .record(z.string().regex(/^(?!__proto__$)[A-Za-z0-9_.-]+$/), agent)
    .optional()
    .describe("External agents that answer as models"),
  mcpServers: z.record(z.string(), mcpServer).optional(),
  profiles: z.record(z.string().regex(/^(?!__proto__$)[A-Za-z0-9_-]+$/), profile).optional(),
  profile: z.string().optional().describe("The default profile"),
  permissions: z.strictObject({ mode: mode.optional(), ...rules }).optional(),
  hooks: z
    .strictObject({
      beforeToolCall: hooks.optional(),
      afterToolCall: hooks.optional(),
      onResponseStart: hooks.optional(),
      onResponseEnd: hooks.optional(),
      bash_confirm: z.boolean().optional(),
      tool_confirm: ruleList.optional(),
    })
    .optional(),
  sandbox: z
    .strictObject({
      level: z.enum(["auto", "required", "none"]).optional(),
      network: z.enum(["auto", "on", "off"]).optional(),
    })
    .optional(),
  server: httpServer.optional().describe("The HTTP door"),
  mcp: mcpDoor.optional().describe("The MCP door"),
  database: z
    .string()
    .min(1)
    .optional()
    .describe("postgres://user:password@host/name, the password better as a variable. Default: SQLite"),
  schedules: z.array(schedule).optional().describe("What the server starts by itself, again and again"),
  maxRuns: positive
    .int()
    .optional()
    .describe("Responses that one process runs at once; background ones beyond it wait"),
  keep: keep.optional().describe("How long responses are kept after their end: 30d, 12h. Default: forever"),
  budgets: z.array(budget).optional().describe("What may be used over many responses; at the limit they wait"),
  compaction: compaction.optional().describe("How prompts are kept within the window of their model"),
  toolOutputLimit: positive.optional().describe("Characters of a tool's result that a model is shown"),
  toolSearchAbove: z.coerce
    .number()
    .int()
    .min(0)
    .optional()
    .describe("Tokens of tool schemas above which a model is offered tool_search in place of MCP tools"),
  advice: z.boolean().optional(),
});

export type RawConfig = z.infer<typeof configSchema>;

/**
 * The doctor's check of names: what a configuration refers to by name and what there is not.
 *
 * Invariant: what only shows when it is asked (a model of a provider, a tool of a server that does not run) is left alone.
 */
import type { App } from "../../types/app.ts";
import type { Config } from "../../types/config.ts";
import type { ModelInfo } from "../../types/model.ts";
import { adminToolNames } from "../../types/tool.ts";
import { instructionsFile } from "../../util/instructions-file.ts";
import { didYouMean, nearName } from "../../util/near-name.ts";
import { matchesName } from "../../util/text.ts";
import type { CommandContext } from "./context.ts";
import type { Finding } from "./doctor-checks.ts";

/** Where a name stands, and the name. */
type Reference = readonly [place: string, name: string | undefined];

export async function checkNames(context: CommandContext): Promise<Finding[]> {
  const app = await context.app();
  const { config } = app;
  const profiles = app.profiles().map(({ name }) => name);
  const findings = profileReferences(config).flatMap(([place, name]) =>
    name === undefined || profiles.includes(name) ? [] : [missing(place, "profile", name, profiles)],
  );
  findings.push(...(await checkInstructions(config)), ...(await checkModelNames(app)));
  findings.push(...(await checkProfileLists(app)));
  return findings;
}

function missing(place: string, kind: "profile" | "model", name: string, known: readonly string[]): Finding {
  const near = didYouMean(name, known);
  return {
    name: "names",
    state: "fault",
    text: `${place}: there is no ${kind} ${name}${near === "" ? `; there are: ${known.join(", ")}` : near}`,
  };
}

function profileReferences(config: Config): Reference[] {
  const ask = config.mcp.askModel;
  return [
    ["profile", config.defaultProfile],
    ["server.profile", config.server.profile],
    ["mcp.profile", config.mcp.profile],
    ["mcp.askModel", ask?.startsWith("profile/") ? ask.slice(8) : undefined],
    ...Object.entries(config.profiles).map(([name, one]): Reference => [`profiles.${name}.extends`, one.extends]),
    ...(config.schedules ?? []).map(({ name, profile }): Reference => [`schedule ${name}`, profile]),
  ];
}

/** Instructions may be the path of a file. */
async function checkInstructions({ profiles }: Config): Promise<Finding[]> {
  const { access } = await import("node:fs/promises");
  const found = Object.entries(profiles).map(async ([name, { instructions = "" }]): Promise<Finding[]> => {
    if (!instructionsFile.test(instructions)) return [];
    const text = `profiles.${name}.instructions: ${instructions} cannot be read`;
    return access(instructions).then(
      () => [],
      () => [{ name: "names", state: "fault", text }],
    );
  });
  return (await Promise.all(found)).flat();
}

async function checkModelNames(app: App): Promise<Finding[]> {
  const { config } = app;
  const ask = config.mcp.askModel;
  const references: Reference[] = [
    ...Object.entries(config.profiles).map(([name, { model }]): Reference => [`profiles.${name}.model`, model]),
    ...config.models.map(({ id, fallback }): Reference => [`fallback of model ${id}`, fallback]),
    ["compaction.model", config.compaction?.model],
    ["mcp.askModel", ask?.startsWith("profile/") ? undefined : ask],
    ...(config.schedules ?? []).map(({ name, model }): Reference => [`schedule ${name}`, model]),
  ];
  if (references.every(([, name]) => name === undefined)) return [];
  const models = await app.models();
  // What is left out has been told of.
  const known = [...models.flatMap(({ id, model }) => [id, model]), ...(config.leftOut ?? []).map(({ name }) => name)];
  return references.flatMap(([place, name]) => {
    if (name === undefined || known.includes(name) || mayBe(name, models)) return [];
    return [missing(place, "model", name, [...new Set(models.map(({ id }) => id))])];
  });
}

/** A provider of the environment may have more models than those that are listed. */
function mayBe(name: string, models: readonly ModelInfo[]): boolean {
  const providers = models.filter(({ origin }) => origin === "environment").map(({ id }) => id.split("/")[0]);
  if (name.includes("/")) return providers.includes(name.split("/")[0]);
  return (
    providers.length > 0 &&
    nearName(
      name,
      models.map(({ id }) => id),
    ) === undefined
  );
}

async function checkProfileLists(app: App): Promise<Finding[]> {
  const profiles = Object.entries(app.config.profiles);
  if (profiles.every(([, { tools, servers, adminTools }]) => !tools && !servers && !adminTools)) return [];
  const tools = await app.engine.tools();
  const servers = (await app.hub())?.servers() ?? [];
  const serverNames = [...servers, ...(app.config.leftOut ?? [])].map(({ name }) => name);
  const listed = new Set(tools.map(({ server }) => server));
  const silent = serverNames.filter((name) => !listed.has(name));
  const toolNames = tools.flatMap((tool) => [tool.name, `${tool.server}:${tool.serverName}`]);
  const findings: Finding[] = [];
  const check = (place: string, globs: readonly string[] = [], known: readonly string[], what: string) => {
    for (const glob of globs) {
      const name = glob.replace(/^!/, "");
      if (known.some((one) => matchesName(name, one))) continue;
      const text = `${place}: ${glob} names no ${what}${didYouMean(name, known)}`;
      findings.push({ name: "names", state: "warning", text });
    }
  };
  for (const [profile, { tools: globs, servers: named, adminTools }] of profiles) {
    const sure = globs?.filter((glob) => !silent.some((name) => isOf(glob.replace(/^!/, ""), name)));
    check(`profiles.${profile}.tools`, sure, [...toolNames, ...adminToolNames, "tool_search", "task"], "tool");
    check(`profiles.${profile}.servers`, named, [...serverNames, "rotunda"], "MCP server");
    check(`profiles.${profile}.adminTools`, adminTools, adminToolNames, "admin tool");
  }
  return findings;
}

/** Only the server itself could say whether it has such a tool. */
function isOf(glob: string, server: string): boolean {
  return glob.startsWith(`${server}__`) || glob.startsWith(`${server}:`);
}

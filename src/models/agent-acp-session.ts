/**
 * The session of an ACP agent: a fork of the one before, that one itself, or a new one.
 *
 * Invariant: a session is gone on with only as a fork, or where it was seen to hold what we know of it, and by one
 * answer at a time; so branches of the tree do not hear of each other.
 */
import type {
  ClientContext,
  InitializeResponse,
  NewSessionResponse,
  SessionConfigOption,
} from "@agentclientprotocol/sdk/unstable";
import { ModelError } from "../types/model.ts";
import type { AgentTask } from "./agent-parts.ts";
import { type AgentPrompt, type AgentSession, withoutSession } from "./agent-prompt.ts";

type Opened = Pick<NewSessionResponse, "modes" | "configOptions">;

export interface SessionParts extends AgentTask {
  agent: ClientContext;
  /** Distinct messages of the user that the agent has told while it loaded a session. */
  replayed(): number;
  /** Why it cannot be taken up, for whoever watches. */
  told(error: unknown): string;
}

export interface OpenedSession {
  session: AgentSession;
  /** What is left to be said in it. */
  prompt: AgentPrompt;
  /** Gives up what keeps others from going on in it. */
  release(): void;
}

/** Sessions that are being written to in this process. */
const busy = new Set<string>();

export async function openSession(parts: SessionParts): Promise<OpenedSession> {
  const { agent, config, cwd, request, prompt } = parts;
  const hello = await agent.request("initialize", {
    protocolVersion: 1,
    clientCapabilities: {},
    clientInfo: { name: "rotunda", version: "1" },
  });
  if (hello.protocolVersion !== 1) {
    const text = `${config.id} speaks version ${hello.protocolVersion} of the protocol, not 1`;
    throw new ModelError("upstream_protocol", text);
  }
  const taken = await takeUp(parts, hello).catch((error: unknown) => {
    if (error instanceof ModelError) throw error;
    request.onRetry?.(
      `its session cannot be taken up (${parts.told(error)}); telling it the whole conversation instead`,
    );
    return undefined;
  });
  if (taken) return taken;
  const whole = prompt.session ? withoutSession(request) : prompt;
  const opened = await agent.request("session/new", { cwd, mcpServers: [] });
  await setUp(parts, opened.sessionId, opened);
  return { session: sessionOf(parts, opened.sessionId, whole, 1), prompt: whole, release: () => undefined };
}

function sessionOf({ cwd }: SessionParts, session: string, prompt: AgentPrompt, prompts: number): AgentSession {
  return { session, cwd, count: prompt.count, covers: prompt.covers, prompts };
}

/** Undefined: there is none to take up, or it is not what it should be. */
async function takeUp(
  parts: SessionParts,
  { agentCapabilities }: InitializeResponse,
): Promise<OpenedSession | undefined> {
  const { agent, prompt, cwd } = parts;
  const { session: known } = prompt;
  if (!known) return undefined;
  const prompts = known.prompts + 1;
  const sessionId = known.session;
  if (agentCapabilities?.sessionCapabilities?.fork) {
    const forked = await agent.request("session/fork", { sessionId, cwd, mcpServers: [] });
    await setUp(parts, forked.sessionId, forked);
    return { session: sessionOf(parts, forked.sessionId, prompt, prompts), prompt, release: () => undefined };
  }
  if (!agentCapabilities?.loadSession || busy.has(known.session)) return undefined;
  busy.add(known.session);
  const release = () => void busy.delete(known.session);
  try {
    const loaded = await agent.request("session/load", { sessionId, cwd, mcpServers: [] });
    // Another branch may have gone on in it.
    if (parts.replayed() === known.prompts) {
      await setUp(parts, known.session, loaded);
      return { session: sessionOf(parts, known.session, prompt, prompts), prompt, release };
    }
  } catch (error) {
    release();
    throw error;
  }
  release();
  return undefined;
}

/** The agent's own name for what our mode means. */
function modeOf({ setting, config }: SessionParts, offered: readonly string[]): string | undefined {
  if (setting.mode === "plan" || setting.readOnly) {
    return offered.find((id) => /^(?:plan|read-?only|architect)$/i.test(id));
  }
  return offered.find((id) => id === config.permissionMode);
}

async function setUp(parts: SessionParts, sessionId: string, { modes, configOptions }: Opened): Promise<void> {
  const { agent } = parts;
  const modeId = modeOf(parts, modes?.availableModes.map(({ id }) => id) ?? []);
  if (modeId !== undefined) await agent.request("session/set_mode", { sessionId, modeId });
  for (const option of configOptions ?? []) {
    const wanted = wantedOf(parts, option);
    if (wanted === undefined) continue;
    await agent.request("session/set_config_option", { sessionId, configId: option.id, value: wanted });
  }
}

function wantedOf(parts: SessionParts, option: SessionConfigOption): string | undefined {
  if (option.type !== "select") return undefined;
  const offered = option.options.flatMap((one) =>
    "value" in one ? [one.value] : one.options.map(({ value }) => value),
  );
  const { model } = parts.config;
  const wanted = option.category === "mode" ? modeOf(parts, offered) : undefined;
  const value = option.category === "model" ? offered.find((one) => one === model) : wanted;
  return value === option.currentValue ? undefined : value;
}

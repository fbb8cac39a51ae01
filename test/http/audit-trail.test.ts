/**
 * The audit log end to end: what came in through HTTP is found there with who, through which door, what was decided by
 * which rule or person, and digests; with no secret in it, and in a chain that is whole.
 */
import { hash } from "node:crypto";
import { expect, test } from "vitest";
import { auditVerify } from "../../src/doors/cli/audit.ts";
import type { CommandContext } from "../../src/doors/cli/context.ts";
import { tokenRevoke } from "../../src/doors/cli/tokens.ts";
import type { UpstreamScript } from "../../src/testing/upstream.ts";
import type { AuditAction, AuditRecord } from "../../src/types/audit.ts";
import type { Scope } from "../../src/types/token.ts";
import { canonicalJson } from "../../src/util/canonical.ts";
import { type Served, serve, type WireResponse } from "./served.ts";

const SLOW = { timeout: 60_000 };
/** The key of the configured model: it must not be found anywhere. */
const PLANTED = "sk-test-0123456789";
const DIGEST = /^[0-9a-f]{64}$/;

const script: UpstreamScript = ({ body }) => {
  const messages = body.messages as { role: string; content: string }[];
  if (messages.at(-1)?.role === "tool") return { text: "done" };
  const asked = JSON.stringify(messages.at(-1));
  if (asked.includes("#write")) {
    const content = `the key is ${PLANTED}, keep it`;
    return { calls: [{ name: "write", arguments: { file_path: "a.txt", content } }] };
  }
  if (asked.includes("#forbidden")) return { calls: [{ name: "bash", arguments: { command: `echo ${PLANTED}` } }] };
  return { silent: "hang" };
};

/** Of a command that runs on this machine, as far as it is asked. */
function commandOn(served: Served): { context: CommandContext; said: string[] } {
  const said: string[] = [];
  const say = (text: string) => void said.push(text);
  const context = { app: async () => served.app, streams: { out: say, err: say } } as unknown as CommandContext;
  return { context, said };
}

async function recordsOf(served: Served): Promise<AuditRecord[]> {
  return served.app.store.audits(0, 1_000);
}

async function lastOf(served: Served, action: AuditAction, about: string | null = null): Promise<AuditRecord> {
  const found = (await recordsOf(served)).filter(
    (one) => one.action === action && (!about || one.responseId === about),
  );
  const last = found.at(-1);
  if (!last) throw new Error(`no record of ${action}`);
  return last;
}

async function background(served: Served, input: string, token: string): Promise<string> {
  const answer = await served.fetch("/v1/responses", { token, json: { model: "test-model", input, background: true } });
  expect(answer.status).toBe(200);
  return ((await answer.json()) as WireResponse).id;
}

async function answerFirst(served: Served, id: string, approved: boolean, token: string): Promise<string> {
  await expect.poll(async () => (await served.app.store.node(id))?.status, { timeout: 10_000 }).toBe("waiting");
  const [{ id: approvalId = "" } = {}] = await served.app.store.approvals({ status: "pending", responseId: id });
  const answer = await served.fetch("/v1/tool-approval", { token, json: { approvalId, approved, reason: "so it is" } });
  expect(answer.status).toBe(200);
  await served.app.engine.wait(id);
  return approvalId;
}

test("calls: who asked, what was decided, by whom or by which rule, and what came of it", SLOW, async () => {
  const served = await serve(script, { config: { permissions: { deny: ["bash"] } } });
  const may: Scope[] = ["responses:read", "responses:write", "approve", "tools:call"];
  const token = await served.newToken({ name: "phone", scopes: may });
  const [, owner = ""] = token.split("_");

  const allowed = await background(served, "#write", token);
  const approval = await answerFirst(served, allowed, true, token);
  expect(await lastOf(served, "approval", allowed)).toMatchObject({
    who: owner,
    door: "http",
    details: { approval, tool: "write", decision: "allow", scope: "once", approver: "phone" },
  });
  expect((await lastOf(served, "approval", allowed)).details.digest).toMatch(DIGEST);
  const call = await lastOf(served, "tool_call", allowed);
  expect(call).toMatchObject({
    who: owner,
    door: "http",
    details: { tool: "write", decision: "allow", status: "completed", approval, approvedBy: "phone" },
  });
  expect(JSON.parse(String(call.details.arguments))).toEqual({
    file_path: "a.txt",
    content: "the key is ***, keep it",
  });
  expect([call.details.argumentsDigest, call.details.resultDigest]).toEqual([
    expect.stringMatching(DIGEST),
    expect.stringMatching(DIGEST),
  ]);
  expect(call.details.why).toEqual(expect.any(String));

  const refused = await background(served, "#write", token);
  await answerFirst(served, refused, false, token);
  expect(await lastOf(served, "approval", refused)).toMatchObject({ details: { decision: "deny", approver: "phone" } });
  expect(await lastOf(served, "tool_call", refused)).toMatchObject({ details: { tool: "write", decision: "deny" } });

  const forbidden = await background(served, "#forbidden", token);
  await served.app.engine.wait(forbidden);
  expect(await lastOf(served, "tool_call", forbidden)).toMatchObject({
    who: owner,
    details: { tool: "bash", decision: "deny", why: expect.stringContaining("bash"), status: "failed" },
  });

  const called = { name: "glob", arguments: { pattern: `*${PLANTED}*` } };
  expect((await served.fetch("/mcp/tools/call", { token, json: called })).status).toBe(200);
  expect(await lastOf(served, "direct_call")).toMatchObject({
    who: owner,
    door: "http",
    responseId: null,
    details: {
      tool: "glob",
      arguments: '{"pattern":"*****"}',
      argumentsDigest: hash("sha256", canonicalJson(called.arguments)),
      decision: "allow",
      status: "completed",
      resultDigest: expect.stringMatching(DIGEST),
    },
  });
  const json = { name: "bash", arguments: { command: "id" } };
  expect((await served.fetch("/mcp/tools/call", { token, json })).status).toBe(403);
  expect(await lastOf(served, "direct_call")).toMatchObject({ details: { tool: "bash", decision: "deny" } });
  await isClean(served, token);
});

test("what is changed and what is stopped: by whom, and what", SLOW, async () => {
  const served = await serve(script);
  const token = await served.newToken({ name: "phone" });
  const [, owner = ""] = token.split("_");
  const admin = await served.newToken({ name: "admin", scopes: ["settings", "mcp:admin", "admin"] });
  const [, administrator = ""] = admin.split("_");

  const settings = await served.fetch("/v1/settings", {
    method: "PATCH",
    token: admin,
    json: { mcpMaxIterations: 9, openaiApiKey: "sk-planted-by-settings" },
  });
  expect(settings.status).toBe(200);
  expect(await lastOf(served, "settings")).toMatchObject({
    who: administrator,
    door: "http",
    details: { updated: expect.arrayContaining(["mcpMaxIterations", "openaiApiKey"]) },
  });

  const server = { name: "away", config: { command: "true", env: { TOKEN: "planted-in-a-server" }, disabled: true } };
  expect((await served.fetch("/v1/mcp/servers", { token: admin, json: server })).status).toBe(201);
  expect(await lastOf(served, "server")).toMatchObject({ who: administrator, details: { server: "away" } });
  expect((await served.fetch("/v1/profiles", { token: admin, json: { name: "Helper" } })).status).toBe(201);
  expect(await lastOf(served, "profile")).toMatchObject({ who: administrator, door: "http" });

  const cut = await background(served, "#stay", token);
  expect((await served.fetch(`/v1/responses/${cut}/cancel`, { method: "POST", token })).status).toBe(200);
  expect(await lastOf(served, "cancel", cut)).toMatchObject({ who: owner, door: "http" });
  expect((await served.fetch(`/v1/responses/${cut}`, { method: "DELETE", token })).status).toBe(200);
  expect(await lastOf(served, "delete", cut)).toMatchObject({ who: owner, door: "http" });

  await Promise.all([background(served, "#stay", token), background(served, "#stay", token)]);
  expect((await served.fetch("/v1/emergency-stop", { token, method: "POST" })).status).toBe(200);
  expect(await lastOf(served, "emergency_stop")).toMatchObject({ who: owner, door: "http", details: { stopped: 2 } });

  await tokenRevoke(commandOn(served).context, "phone");
  expect(await lastOf(served, "token")).toMatchObject({
    who: "cli",
    door: "cli",
    details: { what: "revoke", token: owner, name: "phone" },
  });
  expect((await served.fetch("/v1/models", { token })).status).toBe(401);
  await isClean(served, token, admin, "sk-planted-by-settings", "planted-in-a-server");
});

/** No secret in any record, nor part of a token, nor its hash; and the chain is whole. */
async function isClean(served: Served, ...secrets: string[]): Promise<void> {
  const records = await recordsOf(served);
  expect(records.length).toBeGreaterThan(5);
  const text = JSON.stringify(records);
  for (const secret of [PLANTED, served.token, ...secrets]) {
    expect(text).not.toContain(secret);
    const last = secret.split("_").at(-1) ?? secret;
    expect(text).not.toContain(last);
    expect(text).not.toContain(hash("sha256", last));
  }
  expect(records.every(({ intact }) => intact)).toBe(true);
  const { context, said } = commandOn(served);
  expect(await auditVerify(context, {})).toBe(0);
  expect(said.join("")).toContain(`${records.length} records, the chain is whole`);
}

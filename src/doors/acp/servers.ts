/**
 * MCP servers that a client brings along → the shape of configured ones.
 *
 * Invariant: they belong to the session that brought them and to no other; a server of the configuration keeps its
 * name, so that a rule about it never comes to mean another one. What cannot be used is refused, not left out.
 */
import { isAbsolute } from "node:path";
import type { McpServer } from "@agentclientprotocol/sdk/unstable";
import type { ServerConfig } from "../../types/config.ts";
import { invalidParams } from "./errors.ts";

const ORIGIN = "the editor";
const MAXIMUM_SERVERS = 100;

/** Throws an error of JSON-RPC where one cannot be used. */
export function serversOf(given: readonly McpServer[]): ServerConfig[] {
  if (given.length > MAXIMUM_SERVERS) throw invalidParams(`mcpServers: at most ${MAXIMUM_SERVERS}`);
  const servers = given.map((server, at) => serverOf(server, `mcpServers[${at}]`));
  const names = servers.map(({ name }) => name);
  const twice = names.find((name, at) => names.indexOf(name) !== at);
  if (twice !== undefined) throw invalidParams(`mcpServers: two are named ${JSON.stringify(twice)}`);
  return servers;
}

function serverOf(server: McpServer, where: string): ServerConfig {
  const { name } = server;
  if (name === "") throw invalidParams(`${where}: the name is empty`);
  if (!("type" in server)) {
    const { command, args } = server;
    // A relative one would be looked for wherever the session happens to work.
    if (!isAbsolute(command) && command.includes("/"))
      throw invalidParams(`${where}.command: ${command} must be absolute, or a name on the PATH`);
    const env = Object.fromEntries(server.env.map((variable) => [variable.name, variable.value]));
    return { name, transport: "stdio", command, args, env, disabled: false, origin: ORIGIN };
  }
  if (server.type !== "http")
    throw invalidParams(`${where}: the transport ${server.type} is not supported; use stdio or http`);
  if (!URL.canParse(server.url) || !/^https?:$/.test(new URL(server.url).protocol))
    throw invalidParams(`${where}.url: ${server.url} is no http address`);
  const headers = Object.fromEntries(server.headers.map((header) => [header.name, header.value]));
  return { name, transport: "http", url: server.url, headers, disabled: false, origin: ORIGIN };
}

/**
 * They and the configured ones together. One that is configured already, word for word, is there; one with a name that
 * is taken gets a number.
 */
export function withServers(configured: readonly ServerConfig[], added: readonly ServerConfig[]): ServerConfig[] {
  const all = [...configured];
  for (const server of added) {
    if (all.some((one) => one.name === server.name && !one.disabled && sameTarget(one, server))) continue;
    const taken = (name: string) => name === "rotunda" || all.some((one) => one.name === name);
    let { name } = server;
    for (let number = 2; taken(name); number++) name = `${server.name}-${number}`;
    all.push({ ...server, name });
  }
  return all;
}

function sameTarget(a: ServerConfig, b: ServerConfig): boolean {
  const target = ({ transport, command, args, url, env, headers }: ServerConfig) =>
    JSON.stringify([transport, command, args ?? [], url, env ?? {}, headers ?? {}]);
  return target(a) === target(b);
}

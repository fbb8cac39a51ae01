/** What the tests of SpeakMCP's and notion-open-agent's routes share. */
import { expect } from "vitest";
import { hostileScript } from "../hub/support.ts";
import type { Served, ServedOptions } from "./served.ts";

export interface Answer {
  status: number;
  // What a test looks at is up to the test.
  body: Record<string, unknown>;
}

export async function ask(served: Served, path: string, init: Parameters<Served["fetch"]>[1] = {}): Promise<Answer> {
  const response = await served.fetch(path, init);
  expect(response.headers.get("content-type")).toMatch(/^application\/json/);
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}

const echo = { command: process.execPath, args: [hostileScript, JSON.stringify({})] };

export const withServer = (more: object = {}): ServedOptions => ({ config: { mcpServers: { echo }, ...more } });

export const say = (content: string) => [{ role: "user", content }];

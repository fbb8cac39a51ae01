/**
 * `rotunda/testing`: what tests of agents need. Invariant: everything here runs offline, on loopback or in
 * the process.
 */
export * from "./anthropic-upstream.ts";
export * from "./hostile-mcp-server.ts";
export * from "./scripted-model.ts";
export * from "./upstream.ts";

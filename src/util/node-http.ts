/**
 * Node's `http` module, without what an `import` of it brings along.
 *
 * An ES import of `node:http` reads every one of its exports, and two of them (`WebSocket`, `MessageEvent`) are getters
 * that load the whole of Node's own undici: 35 milliseconds, more than Node's own start. Asked for this way it is 5.
 */

export function nodeHttp(): typeof import("node:http") {
  return process.getBuiltinModule("node:http");
}

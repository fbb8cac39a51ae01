/** A door on a real port with a real store, a few routes of its own, and a raw TCP client. */
import type { ServerResponse } from "node:http";
import { connect, type Socket } from "node:net";
import { z } from "zod";
import { defineRoute, type Route } from "../../src/doors/http/routes.ts";
import { createHttpDoor, type HttpDoor, type HttpDoorOptions } from "../../src/doors/http/server.ts";
import { frame } from "../../src/doors/http/sse.ts";
import type { App } from "../../src/types/app.ts";
import { RotundaError } from "../../src/types/error.ts";
import type { Token } from "../../src/types/token.ts";
import { newToken } from "../../src/util/token.ts";
import { later, temporaryFolder, temporaryStore } from "../support.ts";

export interface Demo {
  /** Grows with every request that `/demo/effects` carried out. */
  effects: number;
  /** Resolves what `/demo/wait` waits for. */
  go: () => void;
  /** Frames that the source of `/demo/flood` was asked for. */
  pulled: number;
  /** The answer of `/demo/flood`. */
  flood: ServerResponse | undefined;
  /** Signals of `/demo/stream` that were aborted, with their reasons. */
  aborted: string[];
}

const echoBody = z.looseObject({ text: z.string().max(60_000_000), items: z.array(z.looseObject({})).optional() });

export function demoRoutes(demo: Demo): Route[] {
  const waiting = Promise.withResolvers<void>();
  demo.go = waiting.resolve;
  const rest = { tag: "demo", summary: "demo", style: "openai" } as const;
  return [
    {
      ...rest,
      method: "GET",
      path: "/demo/things/:id",
      scope: "responses:read",
      load:
        async () =>
        ({ params }, _body) => {
          throw new RotundaError("not_found", `no ${params.id}`);
        },
    },
    {
      ...rest,
      method: "GET",
      path: "/demo/names/:name",
      scope: "responses:read",
      load: async () => (context) => context.json(200, context.params),
    },
    {
      ...rest,
      method: "GET",
      path: "/demo/who",
      scope: "any",
      load: async () => (context) =>
        context.json(200, { owner: context.identity.owner, name: context.identity.name, remote: context.remote }),
    },
    defineRoute({
      ...rest,
      method: "POST",
      path: "/demo/echo",
      scope: "chat",
      body: async () => echoBody,
      load: async () => (context, body) => context.json(200, { length: body.text.length, keys: Object.keys(body) }),
    }),
    defineRoute({
      ...rest,
      method: "POST",
      path: "/demo/effects",
      scope: "chat",
      style: "plain",
      body: async () => z.looseObject({ wait: z.boolean().optional(), status: z.number().optional() }),
      load: async () => async (context, body) => {
        demo.effects++;
        if (body.wait) await waiting.promise;
        context.json(body.status ?? 201, { effect: demo.effects });
      },
    }),
    {
      ...rest,
      method: "POST",
      path: "/demo/press",
      scope: "admin",
      style: "plain",
      load: async () => (context) => {
        demo.effects++;
        context.json(200, {});
      },
    },
    {
      ...rest,
      method: "GET",
      path: "/demo/broken",
      scope: "any",
      load: async () => () => {
        throw new Error("the secret is hunter22");
      },
    },
    { ...rest, method: "GET", path: "/demo/silent", scope: "any", load: async () => () => undefined },
    {
      ...rest,
      method: "POST",
      path: "/demo/accepted",
      scope: "any",
      load: async () => (context) => {
        context.accepted = true;
        throw new RotundaError("upstream_failed", "too late");
      },
    },
    {
      ...rest,
      method: "GET",
      path: "/demo/run",
      scope: "any",
      load: async () => async (context) => {
        const release = await context.acquireRun();
        try {
          await waiting.promise;
        } finally {
          release();
        }
        context.json(200, {});
      },
    },
    {
      ...rest,
      method: "GET",
      path: "/demo/stream",
      scope: "any",
      produces: "text/event-stream",
      load: async () => (context) => {
        const count = Number(context.query.get("count") ?? 3);
        return context.stream({
          async *frames(signal) {
            signal.addEventListener("abort", () => demo.aborted.push(String(signal.reason)));
            for (let index = 0; index < count; index++) yield frame("demo", JSON.stringify({ index }));
            if (context.query.has("stay"))
              await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
            if (context.query.has("fail")) throw new RotundaError("upstream_cut", "cut");
          },
          closing: (reason) => frame("bye", JSON.stringify(reason)),
        });
      },
    },
    {
      ...rest,
      method: "GET",
      path: "/demo/flood",
      scope: "any",
      produces: "text/event-stream",
      load: async () => (context) => {
        demo.flood = context.response;
        return context.stream({
          async *frames() {
            for (;;) {
              demo.pulled++;
              yield frame(undefined, "x".repeat(10_000));
            }
          },
        });
      },
    },
  ];
}

export interface Opened {
  door: HttpDoor;
  app: App;
  demo: Demo;
  port: number;
  /** The local token. */
  local: string;
  lines: string[];
  /** A named token; its text. */
  token(wish?: Partial<Token>): Promise<string>;
  request(path: string, init?: RequestInit & { as?: string | null }): Promise<Response>;
}

export async function openDoor(options: HttpDoorOptions = {}): Promise<Opened> {
  const stateDirectory = temporaryFolder();
  const store = await temporaryStore({}, stateDirectory);
  const redact = (text: string) => text.replaceAll("hunter22", "***");
  // The door's core asks the app for nothing else.
  const app = { store, redact, stateDirectory, workspace: stateDirectory } as unknown as App;
  const demo: Demo = { effects: 0, go: () => undefined, pulled: 0, flood: undefined, aborted: [] };
  const lines: string[] = [];
  const local = "local-token-of-a-test";
  const door = createHttpDoor(app, {
    port: 0,
    localToken: local,
    log: (line) => lines.push(line),
    ...options,
    routes: [...demoRoutes(demo), ...(options.routes ?? [])],
  });
  const url = await door.listen();
  later(() => door.close({ seconds: 0 }));
  return {
    door,
    app,
    demo,
    port: Number(new URL(url).port),
    local,
    lines,
    async token(wish = {}) {
      const made = newToken({ name: `t${Math.random()}`, ...wish }, Date.now());
      await store.saveToken(made.token);
      return made.text;
    },
    request: (path, { as = local, ...init } = {}) =>
      fetch(`${url}${path}`, {
        ...init,
        headers: {
          ...(as !== null && { authorization: `Bearer ${as}` }),
          ...(typeof init.body === "string" && { "content-type": "application/json" }),
          ...init.headers,
        },
      }),
  };
}

export function post(value: unknown): RequestInit {
  return { method: "POST", body: JSON.stringify(value) };
}

/** Sends bytes and reads until the server closes, or says no more for a while. */
export function raw(port: number, text: string | Buffer, quiet = 400): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1", () => socket.write(text));
    let said = "";
    let timer = setTimeout(done, quiet * 5);
    function done() {
      clearTimeout(timer);
      socket.destroy();
      resolve(said);
    }
    socket.setEncoding("latin1").on("data", (part: string) => {
      said += part;
      clearTimeout(timer);
      timer = setTimeout(done, quiet);
    });
    socket.on("end", done).on("close", done);
    socket.on("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "ECONNRESET" || error.code === "EPIPE") done();
      else reject(error);
    });
  });
}

/** A socket that stays open; whatever goes wrong with it is no fault of the test. */
export function open(port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1", () => resolve(socket));
    socket.once("error", reject).on("error", () => undefined);
  });
}

/**
 * A proxy before Postgres that can cut connections at a moment that matters. It speaks on a socket of its own, and
 * looks for text in what clients send.
 */
import { createConnection, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { later, temporaryFolder } from "../support.ts";

/** "before": what was said does not reach the server. "after": it does, and the answer does not come back. */
export type Cut = "before" | "after" | undefined;

export interface Proxy {
  /** The same database, through the proxy. */
  url: string;
  /** Asked for everything that a client sends. */
  onSend: (text: string) => Cut;
  /** Cuts all connections now. */
  cutAll(): void;
  /** How many connections there were. */
  connections: number;
}

export async function startProxy(url: string): Promise<Proxy> {
  const folder = temporaryFolder();
  const query = new URLSearchParams(url.slice(url.indexOf("?") + 1));
  const target = join(query.get("host") ?? "", ".s.PGSQL.5432");
  const open = new Set<Socket>();
  query.set("host", folder);
  const proxy: Proxy = {
    url: `${url.slice(0, url.indexOf("?"))}?${query}`,
    onSend: () => undefined,
    cutAll: () => {
      for (const socket of open) socket.destroy();
    },
    connections: 0,
  };
  const server = createServer((client) => {
    proxy.connections++;
    const upstream = createConnection(target);
    let deaf = false;
    for (const socket of [client, upstream]) {
      open.add(socket);
      socket.on("error", () => undefined);
      socket.on("close", () => {
        open.delete(socket);
        client.destroy();
        // What was said last is still to be done.
        if (!deaf) upstream.destroy();
      });
    }
    client.on("data", (chunk: Buffer) => {
      const cut = deaf ? undefined : proxy.onSend(chunk.toString("latin1"));
      if (cut === "before") {
        client.destroy();
        return;
      }
      upstream.write(chunk);
      if (cut !== "after") return;
      deaf = true;
      client.destroy();
      upstream.once("data", () => setTimeout(() => upstream.destroy(), 20));
    });
    upstream.on("data", (chunk: Buffer) => {
      if (!deaf) client.write(chunk);
    });
  });
  await new Promise<void>((resolve) => server.listen(join(folder, ".s.PGSQL.5432"), resolve));
  later(async () => {
    proxy.cutAll();
    await new Promise((resolve) => server.close(resolve));
  });
  return proxy;
}

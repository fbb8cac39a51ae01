/** An HTTP server that is told what happens, answers as it is bidden, and keeps what it was told. */
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { later } from "../support.ts";

export interface Told {
  headers: IncomingHttpHeaders;
  body: string;
  event: {
    id: string;
    object: string;
    type: string;
    created_at: number;
    data: { id: string; status: string; approval_ids: string[]; [key: string]: unknown };
  };
  /** Milliseconds since the epoch. */
  at: number;
}

export interface Receiver {
  url: string;
  told: Told[];
  /** Most requests that were open at one moment. */
  atOnce: number;
  /** Types of the events that were told of a response, in order. */
  types(responseId: string): string[];
  close(): void;
}

export interface Answer {
  status: number;
  headers?: Record<string, string>;
  /** Never answer at all. */
  silent?: boolean;
  /** Milliseconds. */
  delay?: number;
}

/** `answer` is asked for each request, with its number from 0. Default: 200. */
export async function startReceiver(
  answer: (number: number) => Answer = () => ({ status: 200 }),
  port = 0,
): Promise<Receiver> {
  const told: Told[] = [];
  let open = 0;
  const server = createServer((request, response) => {
    const number = told.length;
    receiver.atOnce = Math.max(receiver.atOnce, ++open);
    response.on("close", () => open--);
    const receive = async () => {
      const body = await text(request);
      told.push({ headers: request.headers, body, event: JSON.parse(body), at: Date.now() });
      const { status, headers = {}, silent, delay = 0 } = answer(number);
      if (silent) return;
      setTimeout(() => response.writeHead(status, headers).end("ok"), delay);
    };
    receive().catch(() => response.destroy());
  });
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  later(close);
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  const receiver: Receiver = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook/s3cret-path`,
    told,
    atOnce: 0,
    types: (id) => told.filter(({ event }) => event.data.id === id).map(({ event }) => event.type),
    close,
  };
  return receiver;
}

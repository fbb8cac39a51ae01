/** A collector on loopback: takes what comes over OTLP/HTTP as JSON, and knows the spans and measurements in it. */
import { once } from "node:events";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";
import { later } from "../support.ts";

export interface SeenSpan {
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  name: string;
  /** 1 internal, 2 server, 3 client. */
  kind: number;
  attributes: Record<string, unknown>;
  links: { traceId: string; spanId: string }[];
  /** 2: error. */
  status: number;
  seconds: number;
}

export interface SeenPoint {
  name: string;
  count: number;
  sum: number;
  bounds: number[];
  attributes: Record<string, unknown>;
}

export interface Collector {
  url: string;
  spans: SeenSpan[];
  points: SeenPoint[];
  resources: Record<string, unknown>[];
  headers: IncomingHttpHeaders[];
  /** Everything that came, as text. */
  text: string;
  /** The spans of one trace, or of all, whose name begins so. */
  named(name: string): SeenSpan[];
  until(what: (collector: Collector) => boolean): Promise<void>;
}

interface Value {
  stringValue?: string;
  intValue?: number | string;
  doubleValue?: number;
  boolValue?: boolean;
  arrayValue?: { values?: Value[] };
}

interface Attribute {
  key: string;
  value: Value;
}

interface WireSpan {
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  name: string;
  kind: number;
  attributes?: Attribute[];
  links?: { traceId: string; spanId: string }[];
  status?: { code?: number };
  startTimeUnixNano: string;
  endTimeUnixNano: string;
}

interface WirePoint {
  count: number | string;
  sum: number;
  explicitBounds: number[];
  attributes?: Attribute[];
}

interface Wire {
  resourceSpans?: { resource: { attributes: Attribute[] }; scopeSpans: { spans: WireSpan[] }[] }[];
  resourceMetrics?: {
    resource: { attributes: Attribute[] };
    scopeMetrics: { metrics: { name: string; histogram?: { dataPoints: WirePoint[] } }[] }[];
  }[];
}

/** `status`: what it answers. */
export async function startCollector({ status = 200 } = {}): Promise<Collector> {
  const collector: Collector = {
    url: "",
    spans: [],
    points: [],
    resources: [],
    headers: [],
    text: "",
    named: (name) => collector.spans.filter((span) => span.name.startsWith(name)),
    async until(what) {
      while (!what(collector)) await new Promise((resolve) => setTimeout(resolve, 10));
    },
  };
  const server = createServer(async (request, response) => {
    const body = (await json(request)) as Wire;
    collector.headers.push(request.headers);
    collector.text += JSON.stringify(body);
    if (request.url === "/v1/traces") takeSpans(collector, body);
    else if (request.url === "/v1/metrics") takePoints(collector, body);
    response.writeHead(status, { "content-type": "application/json" }).end("{}");
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  later(() => {
    server.closeAllConnections();
    server.close();
  });
  collector.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return collector;
}

function takeSpans(collector: Collector, { resourceSpans = [] }: Wire): void {
  for (const { resource, scopeSpans } of resourceSpans) {
    collector.resources.push(record(resource.attributes));
    for (const span of scopeSpans.flatMap(({ spans }) => spans)) {
      const { traceId, spanId, parentSpanId, name, kind, attributes = [], links = [], status } = span;
      collector.spans.push({
        traceId,
        spanId,
        ...(parentSpanId && { parentSpanId }),
        name,
        kind,
        attributes: record(attributes),
        links,
        status: status?.code ?? 0,
        seconds: Number(BigInt(span.endTimeUnixNano) - BigInt(span.startTimeUnixNano)) / 1e9,
      });
    }
  }
}

/** Cumulative: the newest of a series replaces the one before. */
function takePoints(collector: Collector, { resourceMetrics = [] }: Wire): void {
  collector.points = [];
  for (const { name, histogram } of resourceMetrics.flatMap(({ scopeMetrics }) =>
    scopeMetrics.flatMap(({ metrics }) => metrics),
  )) {
    for (const { count, sum, explicitBounds, attributes = [] } of histogram?.dataPoints ?? []) {
      const point = { name, count: Number(count), sum, bounds: explicitBounds, attributes: record(attributes) };
      collector.points.push(point);
    }
  }
}

function record(attributes: readonly Attribute[]): Record<string, unknown> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, plain(value)]));
}

function plain({ stringValue, intValue, doubleValue, boolValue, arrayValue }: Value): unknown {
  if (arrayValue) return (arrayValue.values ?? []).map(plain);
  return stringValue ?? boolValue ?? doubleValue ?? Number(intValue);
}

/**
 * Metrics: what this door counts, in the text form of Prometheus.
 *
 * Invariant: labels come from the table of routes and from status codes, never from a client.
 */

import { monitorEventLoopDelay } from "node:perf_hooks";
import type { ResponseNode } from "../../types/response.ts";

/** Upper bounds of the histogram's steps, in seconds. */
const STEPS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];

/** Of one route. */
export class RouteMetrics {
  readonly method: string;
  readonly path: string;
  readonly statuses = new Map<number, number>();
  readonly steps: number[] = new Array<number>(STEPS.length + 1).fill(0);
  /** Seconds. */
  sum = 0;
  count = 0;

  constructor(method: string, path: string) {
    this.method = method;
    this.path = path;
  }

  /** An answer has left. Milliseconds. */
  observe(status: number, milliseconds: number): void {
    this.statuses.set(status, (this.statuses.get(status) ?? 0) + 1);
    const seconds = milliseconds / 1_000;
    let step = 0;
    while (step < STEPS.length && seconds > (STEPS[step] ?? 0)) step++;
    this.steps[step] = (this.steps[step] ?? 0) + 1;
    this.sum += seconds;
    this.count++;
  }
}

/** What is known elsewhere at the moment of asking. */
export interface Gauges {
  streams: number;
  running: number;
  connections: number;
  /** Responses of the whole database that have not ended, by status; undefined where that cannot be found out now. */
  open: ReadonlyMap<string, number> | undefined;
}

export class Metrics {
  readonly routes: RouteMetrics[] = [];
  /** Whatever matched no route. */
  readonly unmatched = new RouteMetrics("", "(none)");
  /** Errors that were none of ours. */
  faults = 0;
  unhandledRejections = 0;
  /** Bytes that were no HTTP. */
  malformed = 0;
  readonly tokens = { input: 0, output: 0 };
  /** Responses that have ended, by status. */
  readonly responses = new Map<string, number>();
  /** US dollars, where endpoints said what they cost. */
  cost = 0;
  /** Made when it is first asked for: it wakes the process many times a second. */
  #delay: ReturnType<typeof monitorEventLoopDelay> | undefined;

  /** A response has ended that was asked for here. */
  ended({ usage, status }: ResponseNode): void {
    this.responses.set(status, (this.responses.get(status) ?? 0) + 1);
    this.tokens.input += usage.input_tokens;
    this.tokens.output += usage.output_tokens;
    this.cost += usage.cost ?? 0;
  }

  route(method: string, path: string): RouteMetrics {
    const made = new RouteMetrics(method, path);
    this.routes.push(made);
    return made;
  }

  render(gauges: Gauges): string {
    const used = [...this.routes, this.unmatched].filter(({ count }) => count > 0);
    const lines: string[] = [];
    const family = (name: string, kind: string, help: string, samples: [labels: string, value: number][]) => {
      lines.push(`# HELP ${name} ${help}`, `# TYPE ${name} ${kind}`);
      for (const [labels, value] of samples) lines.push(`${name}${labels} ${value}`);
    };
    const single = (name: string, kind: string, help: string, value: number) => family(name, kind, help, [["", value]]);
    family("rotunda_http_requests_total", "counter", "Answers by route and status.", used.flatMap(statusSamples));
    lines.push("# HELP rotunda_http_request_duration_seconds Time from a request to the end of its answer.");
    lines.push("# TYPE rotunda_http_request_duration_seconds histogram", ...used.flatMap(durationLines));
    single("rotunda_http_open_streams", "gauge", "Event streams that are open.", gauges.streams);
    single("rotunda_http_connections", "gauge", "Open connections.", gauges.connections);
    single(
      "rotunda_http_malformed_total",
      "counter",
      "Connections that sent something else than HTTP.",
      this.malformed,
    );
    single(
      "rotunda_running_responses",
      "gauge",
      "Responses of this door that have not ended: running, queued, waiting.",
      gauges.running,
    );
    const byStatus = (counts: ReadonlyMap<string, number>) =>
      [...counts].map(([status, count]): [string, number] => [`{status="${status}"}`, count]);
    family("rotunda_responses_total", "counter", "Responses of this door that ended.", byStatus(this.responses));
    if (gauges.open) {
      const help = "Responses of the database that have not ended: queued is the depth of the queue.";
      family("rotunda_open_responses", "gauge", help, byStatus(gauges.open));
    }
    single("rotunda_faults_total", "counter", "Requests that met an internal fault.", this.faults);
    single(
      "rotunda_unhandled_rejections_total",
      "counter",
      "Promises that nobody looked after.",
      this.unhandledRejections,
    );
    family("rotunda_tokens_total", "counter", "Tokens used by responses of this door.", [
      ['{kind="input"}', this.tokens.input],
      ['{kind="output"}', this.tokens.output],
    ]);
    single("rotunda_cost_dollars_total", "counter", "What they cost, where endpoints say it.", this.cost);
    const memory = process.memoryUsage();
    single("process_resident_memory_bytes", "gauge", "Resident memory.", memory.rss);
    single("nodejs_heap_size_used_bytes", "gauge", "JavaScript heap in use.", memory.heapUsed);
    single(
      "process_cpu_seconds_total",
      "counter",
      "CPU time.",
      process.cpuUsage().user / 1e6 + process.cpuUsage().system / 1e6,
    );
    single("process_uptime_seconds", "gauge", "Seconds since the start.", process.uptime());
    family("rotunda_event_loop_delay_seconds", "gauge", "Delay of the event loop since the last look.", this.#delays());
    return `${lines.join("\n")}\n`;
  }

  #delays(): [string, number][] {
    if (!this.#delay) {
      this.#delay = monitorEventLoopDelay({ resolution: 20 });
      this.#delay.enable();
      return [];
    }
    const delay = this.#delay;
    const samples: [string, number][] = [
      ['{quantile="0.5"}', delay.percentile(50) / 1e9],
      ['{quantile="0.99"}', delay.percentile(99) / 1e9],
      ['{quantile="1"}', delay.max / 1e9],
    ];
    delay.reset();
    return samples;
  }

  close(): void {
    this.#delay?.disable();
  }
}

function labelsOf({ method, path }: RouteMetrics): string {
  return `method="${method}",route="${path}"`;
}

function statusSamples(route: RouteMetrics): [string, number][] {
  return [...route.statuses].map(([status, count]) => [`{${labelsOf(route)},status="${status}"}`, count]);
}

function durationLines(route: RouteMetrics): string[] {
  const name = "rotunda_http_request_duration_seconds";
  let below = 0;
  const buckets = STEPS.map((step, index) => {
    below += route.steps[index] ?? 0;
    return `${name}_bucket{${labelsOf(route)},le="${step}"} ${below}`;
  });
  return [
    ...buckets,
    `${name}_bucket{${labelsOf(route)},le="+Inf"} ${route.count}`,
    `${name}_sum{${labelsOf(route)}} ${route.sum}`,
    `${name}_count{${labelsOf(route)}} ${route.count}`,
  ];
}

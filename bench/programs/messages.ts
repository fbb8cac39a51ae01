/** What the processes of a measurement tell each other. */

/** Conversations side by side; each has `turns` turns of `steps` tool calls and an answer. */
export interface Job {
  conversations: number;
  turns: number;
  steps: number;
  /** What the called tool is declared as. Default "effects". */
  tool?: "effects" | "reads" | undefined;
}

/** Of one job. */
export interface Outcome {
  /** Milliseconds. */
  wall: number;
  /** User and system time of the process, microseconds. */
  cpu: number;
  /** Of each turn, where there was one conversation: milliseconds, and bytes sent to disk. */
  turns: { wall: number; written: number }[];
}

export interface Answers {
  ready: { url: string };
  last: { moment: number; body: string };
}

/** The tool of the jobs does the least that a tool can do. */
export const TOOL = {
  name: "lookup",
  description: "Looks up a number",
  parameters: { type: "object", properties: { number: { type: "integer" } }, required: ["number"] },
};

/** Tells the upstream how many tool calls to ask for. */
export const prompt = (steps: number): string => `Look up the numbers, steps=${steps}.`;

/** Tokens of one stream of the endpoint, at 20 a second: ten seconds. */
export const TOKENS = 200;

/** What the load program is asked for: `count` requests, `flight` at a time, each on a connection of its own. */
export interface Load {
  url: string;
  path: string;
  token: string;
  body: object;
  count: number;
  flight: number;
}

/** Times in milliseconds. */
export interface Loaded {
  wall: number;
  /** Requests that were not answered with 200 and a whole body. */
  failures: number;
  /** Of each request, from its first byte to the answer's last. */
  times: number[];
  /** Tokens of the answers, and how often one was not the next, or an event's number was not. */
  tokens: number;
  gaps: number;
}

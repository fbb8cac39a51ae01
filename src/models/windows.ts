/**
 * Windows: how many tokens a model can read.
 *
 * Invariant: what an endpoint itself has said of a model beats the table, and beats a configured value that is larger;
 * a model that nothing is known of has no window, rather than a wrong one.
 */
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { makeDirectory } from "../util/make-directory.ts";

/**
 * By the name at the endpoint, without a provider's prefix; the first that fits counts. Where hosts differ, the
 * smaller: too small a number makes a summary early, too large a one costs a refused call.
 */
const table: readonly (readonly [RegExp, number])[] = [
  [/^gpt-5/, 272_000],
  [/^gpt-4\.1/, 1_047_576],
  [/^(?:gpt-4o|chatgpt-4o|gpt-4-turbo|gpt-4-(?:1106|0125)|o1-(?:mini|preview))/, 128_000],
  [/^gpt-4-32k/, 32_768],
  [/^gpt-4(?:$|-)/, 8_192],
  [/^gpt-3\.5/, 16_385],
  [/^gpt-oss/, 131_072],
  [/^o\d/, 200_000],
  [/^claude/, 200_000],
  [/^gemini-1\.0/, 32_760],
  [/^gemini/, 1_048_576],
  [/^gemma-?[12](?:$|[^\d])/, 8_192],
  [/^gemma/, 128_000],
  [/^grok-(?:2|3)/, 131_072],
  [/^grok/, 256_000],
  [/^deepseek-(?:v3p1|v3\.[1-9]|chat|reasoner)/, 128_000],
  [/^deepseek/, 65_536],
  [/^kimi-k2/, 131_072],
  [/^(?:moonshot|kimi)/, 128_000],
  [/^glm-4\.[6-9]/, 200_000],
  [/^glm/, 128_000],
  [/^minimax/, 200_000],
  [/^(?:llama-?4|meta-llama-4)/, 128_000],
  [/^(?:meta-)?llama-?(?:v?3[._p-]?[123])/, 131_072],
  [/^(?:meta-)?llama-?v?3/, 8_192],
  [/^(?:meta-)?llama-?2/, 4_096],
  [/^qwen-?3-?(?:coder|next)/, 262_144],
  [/^qwen(?:-?max)/, 32_768],
  [/^qwen-?(?:2\.5|3)/, 32_768],
  [/^qwq/, 32_768],
  [
    /^(?:mistral-large|mistral-medium|mistral-small-(?:3\.1|2503)|ministral|magistral|devstral|pixtral|open-mistral-nemo)/,
    128_000,
  ],
  [/^codestral/, 32_768],
  [/^(?:mistral|mixtral|open-mi[sx]tral)/, 32_768],
  [/^command-(?:r|a)/, 128_000],
  [/^phi-?4(?:$|-(?!mini))/, 16_384],
  [/^phi/, 128_000],
  [/^nova-(?:lite|pro)/, 300_000],
  [/^nova/, 128_000],
  [/^sonar/, 127_000],
];

/** By the table; undefined: not known. */
export function knownWindow(model: string): number | undefined {
  const name = model.toLowerCase().slice(model.lastIndexOf("/") + 1);
  return table.find(([pattern]) => pattern.test(name))?.[1];
}

/** Numbers as endpoints write the window into the message of a refusal. The first group is the window. */
const phrases: readonly RegExp[] = [
  /exceed(?:s)? context limit: [\d,]+ \+ [\d,]+ > ([\d,]{3,})/i,
  /maximum (?:context|prompt|sequence|model) length(?: is|:)? (?:of )?(?:only )?([\d,]{3,})/i,
  /context length of (?:only )?([\d,]{3,})/i,
  /with ([\d,]{3,}) maximum context length/i,
  /context (?:size|window|limit) ?(?:is |of |\(|: ?)\(?([\d,]{3,})/i,
  /prompt is too long: [\d,]+ tokens > ([\d,]{3,})/i,
  /maximum number of tokens allowed \(([\d,]{3,})\)/i,
  /must (?:be|have) (?:<=|less than|at most) ([\d,]{3,})/i,
  /cannot exceed ([\d,]{3,})/i,
  /"?n_ctx"?\s*[:=]\s*([\d,]{3,})/i,
  /maximum (?:input|allowed)(?: length| tokens?)*(?: is| of|:) ?([\d,]{3,})/i,
  /limit:? ([\d,]{3,}),? requested/i,
];

/** Tokens that an endpoint says it takes, in the message of a refusal; undefined: it does not say. */
export function windowIn(message: string): number | undefined {
  for (const phrase of phrases) {
    const found = phrase.exec(message)?.[1]?.replaceAll(",", "");
    const tokens = found === undefined ? Number.NaN : Number(found);
    if (tokens >= 256 && tokens <= 100_000_000) return tokens;
  }
  return undefined;
}

const MAX_LEARNED = 1_000;

/** What endpoints have said, by `Model.key`; kept in a file, where there is one. */
export class Windows {
  readonly #path: string | undefined;
  #learned: Map<string, number> | undefined;

  constructor(path?: string) {
    this.#path = path;
  }

  /** Tokens; undefined: not known. */
  of(key: string, model: string, configured: number | undefined, table = true): number | undefined {
    const learned = this.#all().get(key);
    if (configured !== undefined) return Math.min(configured, learned ?? configured);
    return learned ?? (table ? knownWindow(model) : undefined);
  }

  learn(key: string, message: string): void {
    const tokens = windowIn(message);
    const learned = this.#all();
    if (tokens === undefined || learned.get(key) === tokens) return;
    const [oldest] = learned.keys();
    if (learned.size >= MAX_LEARNED && oldest !== undefined) learned.delete(oldest);
    learned.set(key, tokens);
    this.#save(learned);
  }

  #all(): Map<string, number> {
    this.#learned ??= new Map(this.#path === undefined ? [] : readLearned(this.#path));
    return this.#learned;
  }

  /** Next time the endpoint says it again: what cannot be written is no fault. */
  #save(learned: ReadonlyMap<string, number>): void {
    if (this.#path === undefined) return;
    try {
      makeDirectory(dirname(this.#path), 0o700);
      const draft = `${this.#path}.${process.pid}`;
      writeFileSync(draft, `${JSON.stringify(Object.fromEntries(learned), null, 2)}\n`, { mode: 0o600 });
      renameSync(draft, this.#path);
    } catch {
      // As above.
    }
  }
}

function readLearned(path: string): [string, number][] {
  try {
    const value: unknown = JSON.parse(readFileSync(path, "utf8"));
    if (typeof value !== "object" || value === null) return [];
    return Object.entries(value).filter(
      (entry): entry is [string, number] => Number.isInteger(entry[1]) && entry[1] > 0,
    );
  } catch {
    return [];
  }
}

/**
 * The person at the terminal: who answers approvals.
 *
 * Invariant: what is shown is the canonical arguments in full, with every control character made visible;
 * only a key that was typed after the question was shown answers it.
 */
import { createInterface } from "node:readline/promises";
import type { Approval, Decision } from "../../types/approval.ts";
import type { Approver } from "../../types/engine.ts";
import { visible } from "../../util/text.ts";
import type { Style } from "./style.ts";

export interface TerminalOptions {
  input: NodeJS.ReadStream;
  output: NodeJS.WriteStream;
  style: Style;
}

/** Asks one question after the other, however many runs want an answer. */
export function terminalApprover(options: TerminalOptions): Approver {
  let turn: Promise<unknown> = Promise.resolve();
  return (approval, signal) => {
    const answer = turn.then(() => askOne(approval, signal, options));
    turn = answer.catch(() => undefined);
    return answer;
  };
}

async function askOne(approval: Approval, signal: AbortSignal, options: TerminalOptions): Promise<Decision> {
  signal.throwIfAborted();
  await forgetTyped(options.input);
  const { style, output } = options;
  const what =
    approval.tool === "bash" ? "Bash command requires confirmation:" : `${approval.tool} requires confirmation:`;
  output.write(
    `\n${style.yellow(`⚠️  ${what}`)}\n${visible(pretty(approval.arguments))}\n${style.dim(`(${visible(approval.why)})`)}\n`,
  );
  const lines = createInterface({ input: options.input, output });
  // The terminal hands Ctrl-C to whoever reads it: it means the turn, as everywhere.
  lines.on("SIGINT", () => process.emit("SIGINT"));
  try {
    for (;;) {
      const question = `Allow? [y] once${further(approval)}  [N] no: `;
      const answer = (await lines.question(question, { signal })).trim();
      const by = "terminal";
      switch (answer.toLowerCase()) {
        case "y":
        case "yes":
          return { decision: "allow", scope: "once", by };
        case "s":
          return { decision: "allow", scope: "session", by };
        case "a":
          return { decision: "allow", scope: "always", by };
        case "":
        case "n":
        case "no": {
          const reason = (await lines.question("Why (for the model; may be empty): ", { signal })).trim();
          return { decision: "deny", by, ...(reason !== "" && { reason }) };
        }
        default:
          // Anything longer is taken as the reason of a no: nothing is allowed by accident.
          if (answer.length > 3) return { decision: "deny", by, reason: answer };
      }
    }
  } finally {
    lines.close();
  }
}

/** Milliseconds for which what was typed before is thrown away. */
const FORGET = 60;

/** A key that was hit before the question stood there is no answer to it. */
async function forgetTyped(input: NodeJS.ReadStream): Promise<void> {
  const ignore = () => undefined;
  input.on("data", ignore).resume();
  await new Promise((resolve) => setTimeout(resolve, FORGET));
  input.off("data", ignore).pause();
}

/** Where nothing narrow can be learned from an answer, it is for this call only. */
function further({ pattern }: Approval): string {
  return pattern.endsWith("()") ? "" : `  [s] this session  [a] always ${visible(pattern)}`;
}

function pretty(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/**
 * `rotunda open`: the page in a browser, signed in by a link that is good once.
 *
 * Invariant: the link is handed to the browser as one argument, or printed; it is written nowhere else.
 */
import type { CommandContext } from "./context.ts";
import { openAddress } from "./open-address.ts";
import { postToServer } from "./remote.ts";

export async function openPage(context: CommandContext, options: { print?: boolean }): Promise<number> {
  const { stateDirectory } = await context.setUp();
  const link = await signInLink(stateDirectory);
  if (link === undefined) {
    context.say(
      "error",
      "No server is running.\n  Start one with rotunda start, or in the foreground with rotunda serve.",
    );
    return 1;
  }
  const { out } = context.streams;
  if (options.print) {
    out(`${link}\n`);
    return 0;
  }
  openAddress(link);
  out(`Opening the page. Where no browser comes up, open this within 15 minutes:\n${link}\n`);
  return 0;
}

/** A fresh link to the server of this state directory; undefined where none runs. */
export async function signInLink(stateDirectory: string): Promise<string | undefined> {
  const answer = await postToServer(stateDirectory, "/rotunda/sign-in-link", {});
  return answer && (JSON.parse(answer.text) as { url: string }).url;
}

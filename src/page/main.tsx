/** The page: signs in, then draws what the address says. Invariant: nothing is drawn of a view before there is a session. */
import { render } from "preact";
import { words } from "./api.ts";
import { App } from "./app.tsx";
import { applyAppearance } from "./appearance.ts";
import { listenToAddress } from "./router.tsx";
import { listenToLinks, openSession } from "./session.ts";
import { signInProblem } from "./sign-in.tsx";

applyAppearance();
listenToAddress();
const root = document.getElementById("root");
const failed = (error: unknown) => signInProblem.set(words(error));
if (root) {
  listenToLinks(failed);
  openSession()
    .catch(failed)
    .finally(() => render(<App />, root));
}

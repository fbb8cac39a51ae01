/** The door: what is shown to whoever is not signed in. Invariant: a token that is typed is kept nowhere. */
import { useState } from "preact/hooks";
import { session, words } from "./api.ts";
import { Cell, useCell } from "./cell.ts";
import { Logo } from "./icons.tsx";
import { openSession, signIn } from "./session.ts";

export const signInProblem = new Cell("");

export function SignIn() {
  const problem = useCell(signInProblem);
  const [busy, setBusy] = useState(false);
  const submit = (event: Event) => {
    event.preventDefault();
    const token = new FormData(event.target as HTMLFormElement).get("token");
    setBusy(true);
    signInProblem.set("");
    signIn({ token: typeof token === "string" ? token.trim() : "" })
      .catch((error: unknown) => signInProblem.set(words(error)))
      .finally(() => setBusy(false));
  };
  const again = () => {
    openSession()
      .then(() => signInProblem.set(""))
      .catch((error: unknown) => signInProblem.set(words(error)));
  };
  return (
    <main class="sign-in" id="main" tabIndex={-1}>
      <Logo />
      <h1>Rotunda</h1>
      <p>
        Open the link that <code>rotunda serve</code> has printed, or get a new one on the machine of the server:
      </p>
      <pre>
        <code>rotunda open</code>
      </pre>
      {problem !== "" && (
        <p class="problem" role="alert">
          {problem}
        </p>
      )}
      {session.value === undefined && (
        <button type="button" onClick={again}>
          Try again
        </button>
      )}
      <form onSubmit={submit}>
        <label for="token">Or sign in with a token</label>
        <div class="row">
          <input id="token" name="token" type="password" autocomplete="off" required />
          <button type="submit" class="primary" disabled={busy}>
            Sign in
          </button>
        </div>
        <p class="hint">
          <code>rotunda token add NAME</code> makes one with scopes of its own.
        </p>
      </form>
    </main>
  );
}

/**
 * Who is signed in.
 *
 * Invariant: the code of a sign-in link leaves the address bar before anything else happens, and is used once; the proof
 * that goes with the cookie is kept by the browser for this origin (port included), where no other server is told it.
 */
import { ask, askJson, RequestError, type Session, SIGN_IN, session } from "./api.ts";

const KEY = "rotunda.csrf";
const LINK = "#sign-in=";

function remember(csrf: string | undefined): void {
  try {
    if (csrf === undefined) localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, csrf);
  } catch {
    // A browser that keeps nothing: the session lasts as long as the page.
  }
}

function remembered(): string {
  try {
    return localStorage.getItem(KEY) ?? "";
  } catch {
    return "";
  }
}

/** The code that the address brought along, which is taken out of it. */
function codeOfAddress(): string | undefined {
  if (!location.hash.startsWith(LINK)) return undefined;
  const code = location.hash.slice(LINK.length);
  history.replaceState(null, "", location.pathname + location.search);
  return code;
}

/** Signs in by the link's code or by what is kept. Throws where the code was refused. */
export async function openSession(): Promise<void> {
  const code = codeOfAddress();
  if (code !== undefined) {
    try {
      return await signIn({ code });
    } catch (error) {
      await resumeSession();
      // A used link does no harm to whoever is signed in already.
      if (session.value === null) throw error;
      return;
    }
  }
  await resumeSession();
}

/** A link that is opened in the tab of the page itself changes nothing but the part behind the #. */
export function listenToLinks(failed: (error: unknown) => void): void {
  addEventListener("hashchange", () => {
    if (location.hash.startsWith(LINK)) openSession().catch(failed);
  });
}

async function resumeSession(): Promise<void> {
  const csrf = remembered();
  try {
    const headers = csrf === "" ? {} : { "x-rotunda-csrf": csrf };
    const found = await askJson<Session>("/rotunda/session", { headers });
    take(found);
  } catch (error) {
    // A server that cannot say it now says nothing about the session.
    const { status } = error instanceof RequestError ? error : { status: 0 };
    if (status === 0 || status === 429 || status >= 500) throw error;
    session.set(null);
  }
}

export async function signIn(by: { code: string } | { token: string }): Promise<void> {
  const found = await askJson<Session>(SIGN_IN, { body: by });
  remember(found.csrf);
  if (was !== undefined && was !== found.name) return forget();
  take(found);
}

/** Ends the session at the server, then forgets it here. Throws where the server did not end it: it would still be good. */
export async function signOut(): Promise<void> {
  await ask("/rotunda/session", { method: "DELETE" }).catch((error: unknown) => {
    if (!(error instanceof RequestError && error.status === 401)) throw error;
  });
  remember(undefined);
  try {
    sessionStorage.clear();
  } catch {
    // Nothing was kept.
  }
  forget();
}

/** Whose answers the page may remember. */
let was: string | undefined;

function take(found: Session): void {
  was = found.name;
  session.set(found);
}

/** What was read for one person is not shown to another: the page begins anew. */
function forget(): void {
  location.replace("/");
}

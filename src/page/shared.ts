/**
 * What every view wants to know: conversations, questions that wait, who can answer.
 *
 * Invariant: a list is what the server said last; whatever changes anywhere is asked for anew, at most every 150 ms.
 */
import { askJson, may, session } from "./api.ts";
import { Cell } from "./cell.ts";
import { pause, readEvents } from "./stream.ts";
import type { Elicitation, PendingApproval, WireConversation } from "./wire.ts";

export interface Choice {
  /** As `model` of a request names it. */
  id: string;
  owner: string;
  /** Tokens, where it is known. */
  window?: number;
  /** US dollars for a million tokens. */
  price?: { input: number; output: number };
  /** The host that it is asked at. */
  endpoint?: string;
  /** It answers where nobody is named. */
  usual: boolean;
}

/** A profile. */
export interface Agent {
  id: string;
  /** Id of the model that it answers with. */
  model: string;
  usual: boolean;
}

export const conversations = new Cell<readonly WireConversation[]>([]);
export const approvals = new Cell<readonly PendingApproval[]>([]);
export const elicitations = new Cell<readonly Elicitation[]>([]);
export const models = new Cell<readonly Choice[]>([]);
export const profiles = new Cell<readonly Agent[]>([]);
/** Counts up whenever something may have changed: views that have lists of their own look again. */
export const changes = new Cell(0);

/** How many conversations are listed. */
export const listed = new Cell(60);
/** There are more than those. */
export const moreConversations = new Cell(false);
const PROFILE = "profile/";

/** Takes answers in the order in which they were asked for: one that was overtaken is left. */
function inOrder(): <T>(asked: Promise<T>) => Promise<T | undefined> {
  let number = 0;
  let taken = 0;
  return async (asked) => {
    const mine = ++number;
    const answer = await asked;
    if (mine < taken) return undefined;
    taken = mine;
    return answer;
  };
}

const ofConversations = inOrder();
const ofApprovals = inOrder();
const ofElicitations = inOrder();
const ofModels = inOrder();

async function readConversations(): Promise<void> {
  type Answer = { data: WireConversation[]; conversations?: WireConversation[]; has_more?: boolean };
  const answer = await ofConversations(askJson<Answer>(`/v1/conversations?limit=${Math.min(1_000, listed.value)}`));
  if (!answer) return;
  moreConversations.set(answer.has_more === true);
  const previews = new Map(answer.conversations?.map((one) => [one.id, one.preview ?? ""]));
  conversations.set(answer.data.map((one) => ({ ...one, preview: previews.get(one.id) ?? "" })));
}

async function readApprovals(): Promise<void> {
  if (!may("approve") && !may("responses:read")) return;
  const asked = await ofApprovals(askJson<{ approvals: PendingApproval[] }>("/v1/tool-approvals"));
  if (asked) approvals.set(asked.approvals);
  if (!may("approve")) return;
  const open = await ofElicitations(askJson<{ elicitations: Elicitation[] }>("/v1/elicitation/pending"));
  if (open) elicitations.set(open.elicitations);
}

export async function readModels(): Promise<void> {
  type Wire = Pick<Choice, "id" | "price" | "endpoint"> & {
    owned_by: string;
    context_window?: number;
    default?: true;
    answers_with?: string;
  };
  const { data } = (await ofModels(askJson<{ data: Wire[] }>("/v1/models"))) ?? {};
  if (!data) return;
  const isAgent = ({ id }: Wire) => id.startsWith(PROFILE);
  models.set(
    data
      .filter((one) => !isAgent(one))
      .map(({ id, owned_by, context_window, default: usual, price, endpoint }) => ({
        id,
        owner: owned_by,
        usual: usual === true,
        ...(context_window !== undefined && { window: context_window }),
        ...(price && { price }),
        ...(endpoint !== undefined && { endpoint }),
      })),
  );
  profiles.set(
    data.filter(isAgent).map(({ id, answers_with: model = "", default: usual }) => ({
      id: id.slice(PROFILE.length),
      model,
      usual: usual === true,
    })),
  );
}

/** The server is another version than the one that this page came from. */
export const outdated = new Cell(false);
let known: string | undefined;

let planned: ReturnType<typeof setTimeout> | undefined;

/** Something has changed, here or elsewhere. */
export function lookAgain(): void {
  if (planned !== undefined) return;
  planned = setTimeout(() => {
    planned = undefined;
    Promise.allSettled([readConversations(), readApprovals()])
      .then(() => changes.set(changes.value + 1))
      .catch(() => undefined);
  }, 150);
}

export async function readAll(): Promise<void> {
  await Promise.allSettled([readConversations(), readApprovals(), readModels()]);
}

/** Milliseconds between looks where the server has no news to tell. */
const POLL = 4_000;
const SILENCE = 45_000;

/** Follows the server's news for as long as the page is open and seen. */
export async function followNews(signal: AbortSignal): Promise<void> {
  let failures = 0;
  while (!signal.aborted) {
    const connection = new AbortController();
    const cut = () => connection.abort();
    const hidden = () => {
      if (document.visibilityState === "hidden") cut();
    };
    let silence = setTimeout(cut, SILENCE);
    document.addEventListener("visibilitychange", hidden);
    addEventListener("offline", cut);
    try {
      if (document.visibilityState === "visible" && session.value) {
        const alive = () => {
          failures = 0;
          clearTimeout(silence);
          silence = setTimeout(cut, SILENCE);
        };
        for await (const data of readEvents("/rotunda/news", connection.signal, alive)) {
          const { type, version } = JSON.parse(data) as { type?: string; version?: string };
          if (type === "settings" || type === "all") readModels().catch(() => undefined);
          if (type === "hello" && version !== undefined) {
            known ??= version;
            outdated.set(version !== known);
          }
          lookAgain();
        }
      }
    } catch {
      failures++;
    }
    clearTimeout(silence);
    document.removeEventListener("visibilitychange", hidden);
    removeEventListener("offline", cut);
    await pause(failures === 0 ? 300 : Math.min(POLL, 500 * 2 ** failures), signal);
    // Whatever was missed meanwhile.
    if (document.visibilityState === "visible" && session.value) lookAgain();
  }
}

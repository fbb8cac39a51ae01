/** Paging as OpenAI's listings have it: `limit`, `after`, `order`. */
import type { JsonObject } from "../../types/json.ts";
import type { RequestContext } from "./context.ts";
import { DoorError } from "./errors.ts";

export interface PageWish {
  /** 1 to 100; 20 where nothing is said. */
  limit: number;
  /** An id. */
  after: string | undefined;
  order: "asc" | "desc";
}

/** Throws `usage`. */
export function readPage({ query }: RequestContext, order: "asc" | "desc"): PageWish {
  const limit = Number(query.get("limit") ?? 20);
  if (!Number.isInteger(limit) || limit < 1 || limit > 100) {
    throw new DoorError("usage", "limit is a whole number from 1 to 100.", { param: "limit" });
  }
  const wanted = query.get("order") ?? order;
  if (wanted !== "asc" && wanted !== "desc") {
    throw new DoorError("usage", "order can be asc or desc.", { param: "order" });
  }
  return { limit, after: query.get("after") ?? undefined, order: wanted };
}

export function page(data: readonly JsonObject[], hasMore: boolean) {
  const idOf = (one: JsonObject | undefined) => (typeof one?.id === "string" ? one.id : null);
  return { object: "list", data, first_id: idOf(data[0]), last_id: idOf(data.at(-1)), has_more: hasMore };
}

/** A part of undici that is imported by path: its index, which would put it on the pool, costs three times as much. */

declare module "undici/lib/api/api-request.js" {
  import type { Dispatcher, Pool } from "undici";

  export default function request(this: Pool, options: Dispatcher.RequestOptions): Promise<Dispatcher.ResponseData>;
}

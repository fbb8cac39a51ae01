/** The parts of undici that are imported by path, because its index costs three times as much to load. */
declare module "undici/lib/dispatcher/pool.js" {
  import type { Pool } from "undici";

  const Dispatcher: typeof Pool;
  export default Dispatcher;
}

declare module "undici/lib/dispatcher/env-http-proxy-agent.js" {
  import type { EnvHttpProxyAgent } from "undici";

  const Dispatcher: typeof EnvHttpProxyAgent;
  export default Dispatcher;
}

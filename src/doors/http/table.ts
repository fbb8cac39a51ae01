/** The table of all routes of this door. Invariant: what it imports is entries only, never a handler. */
import { browseRoutes } from "./browse-routes.ts";
import { budgetsRoutes } from "./budgets-routes.ts";
import { chatRoutes } from "./chat-routes.ts";
import { conversationsRoutes } from "./conversations-routes.ts";
import { coreRoutes } from "./core-routes.ts";
import { localRoutes } from "./local-runs-routes.ts";
import { mcpRoutes } from "./mcp-routes.ts";
import { oauthRoutes } from "./oauth-routes.ts";
import { pageRoutes } from "./page-routes.ts";
import { responsesRoutes } from "./responses-routes.ts";
import type { Route } from "./routes.ts";
import { schedulesRoutes } from "./schedules-routes.ts";
import { speakmcpRoutes } from "./speakmcp-routes.ts";

export const allRoutes: readonly Route[] = [
  ...coreRoutes,
  ...chatRoutes,
  ...responsesRoutes,
  ...conversationsRoutes,
  ...speakmcpRoutes,
  ...oauthRoutes,
  ...localRoutes,
  ...mcpRoutes,
  ...budgetsRoutes,
  ...schedulesRoutes,
  ...browseRoutes,
  ...pageRoutes,
];

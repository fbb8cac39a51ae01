/** Routes of schedules: what is started again and again, or later. */
import { defineRoute, type Route } from "./routes.ts";

const tag = "schedules";
const style = "openai";
const handlers = () => import("./schedules.ts");
const schemas = () => import("./schedules-schemas.ts");

export const schedulesRoutes: readonly Route[] = [
  {
    method: "GET",
    path: "/v1/schedules",
    summary: "List schedules",
    tag,
    style,
    scope: "responses:read",
    load: async () => (await handlers()).listSchedules,
  },
  defineRoute({
    method: "POST",
    path: "/v1/schedules",
    summary: "Start a request again and again (cron), or once later (at, delay)",
    tag,
    style,
    scope: "responses:write",
    body: async () => (await schemas()).scheduleToMake,
    load: async () => (await handlers()).makeSchedule,
  }),
  {
    method: "GET",
    path: "/v1/schedules/:id",
    summary: "Read a schedule",
    tag,
    style,
    scope: "responses:read",
    load: async () => (await handlers()).getSchedule,
  },
  defineRoute({
    method: "PATCH",
    path: "/v1/schedules/:id",
    summary: "Change a schedule, or switch it on or off",
    tag,
    style,
    scope: "responses:write",
    body: async () => (await schemas()).scheduleChange,
    load: async () => (await handlers()).changeSchedule,
  }),
  {
    method: "DELETE",
    path: "/v1/schedules/:id",
    summary: "Remove a schedule; what it has started stays",
    tag,
    style,
    scope: "responses:write",
    load: async () => (await handlers()).removeSchedule,
  },
];

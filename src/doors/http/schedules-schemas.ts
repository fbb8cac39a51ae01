/** Schemas of schedules. Invariant: one is due by its cron expression or at a moment, never by both. */
import { z } from "zod";

const common = {
  timezone: z.string().min(1).max(60).optional().describe("IANA name; default UTC"),
  input: z.string().min(1),
  model: z.string().min(1).max(300).optional().describe("A model, or profile/NAME"),
  conversation: z.string().min(1).max(300).optional().describe("Goes on with it each time; made if there is none"),
  enabled: z.boolean().optional(),
};

export const scheduleToMake = z
  .object({
    ...common,
    name: z.string().min(1).max(100),
    cron: z.string().min(1).max(200).optional().describe("Minute hour day month weekday, or @daily"),
    at: z.iso.datetime({ offset: true }).optional().describe("Once, at this moment"),
    delay: z.number().min(0).max(31_536_000).optional().describe("Once, in so many seconds"),
  })
  .refine(({ cron, at, delay }) => [cron, at, delay].filter((one) => one !== undefined).length === 1, {
    message: "it needs exactly one of cron, at and delay",
  });

export const scheduleChange = z.object({
  cron: z.string().min(1).max(200).optional(),
  timezone: common.timezone,
  input: common.input.optional(),
  enabled: common.enabled,
});

export type ScheduleToMake = z.infer<typeof scheduleToMake>;
export type ScheduleChange = z.infer<typeof scheduleChange>;

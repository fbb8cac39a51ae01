/** Moments of a cron expression. Invariant: what is no expression, or no time zone, is refused when it is written down. */
import { RotundaError } from "../types/error.ts";

/** The next moment after `after`, in milliseconds since the epoch; null: there is none. Throws `usage`. */
export async function nextMoment(cron: string, timezone = "UTC", after = Date.now()): Promise<number | null> {
  checkTimezone(timezone);
  const { CronExpressionParser } = await import("./cron-parser.ts");
  try {
    const fields = cron.trim().split(/\s+/).length;
    if (!cron.trim().startsWith("@") && (fields < 5 || fields > 6))
      throw new Error("it has five fields, or six with seconds");
    const expression = CronExpressionParser.parse(cron, { currentDate: new Date(after), tz: timezone });
    return expression.hasNext() ? expression.next().getTime() : null;
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new RotundaError(
      "usage",
      `${JSON.stringify(cron.slice(0, 80))} (${timezone.slice(0, 40)}) is no schedule: ${why}`,
      {
        remedy:
          'Five fields (minute hour day month weekday), for example "0 7 * * 1-5", six with seconds in front, or @hourly, @daily, @weekly',
      },
    );
  }
}

/** Throws `usage`. */
export function checkTimezone(timezone: string): void {
  try {
    new Intl.DateTimeFormat("en", { timeZone: timezone });
  } catch {
    throw new RotundaError("usage", `the time zone ${JSON.stringify(timezone.slice(0, 60))} is unknown`, {
      remedy: "Write it as Europe/Paris or America/New_York; without one it is UTC.",
    });
  }
}

/** `rotunda schedule`: through the real program. */
import { expect, test } from "vitest";
import { home } from "./run.ts";

test("seconds are taken; what is no time, no zone, or two times at once is named", async () => {
  const place = home();
  const add = (...flags: string[]) => place.run(["schedule", "add", "later", ...flags, "hello"]);
  expect((await add()).err).toContain("Give one of --cron, --at and --in");
  expect((await add("--cron", "@daily", "--in", "2h")).err).toContain("only one of --cron and --in can be given");
  expect((await add("--cron", "@daily", "--timezone", "Europe/Pariss")).err).toBe(
    'rotunda: the time zone "Europe/Pariss" is unknown\n' +
      "  Write it as Europe/Paris or America/New_York; without one it is UTC.\n",
  );
  expect((await add("--in", "2h", "--timezone", "Mars")).err).toContain('the time zone "Mars" is unknown');
  for (const wrong of ["0s", "soon", "1.5s"]) expect((await add("--in", wrong)).err).toContain("is no time");
  const before = Date.now();
  const added = await place.run(["schedule", "add", "later", "--in", "10s", "--json", "hello"]);
  const { nextAt } = JSON.parse(added.out) as { nextAt: number };
  expect(nextAt - before).toBeGreaterThanOrEqual(10_000);
  expect(nextAt).toBeLessThanOrEqual(Date.now() + 10_000);
  expect((await place.run(["schedule", "add", "six", "--cron", "30 0 7 * * *", "hello"])).err).toMatch(/T07:00:30/);
});

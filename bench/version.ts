/** `rotunda --version` against `node -e 0`: what a command costs before it does anything. */
import { inTurns, type Measurement, median } from "./measurement.ts";
import { makePlace, ROTUNDA, runNode } from "./processes.ts";

export const version: Measurement = {
  name: "version",
  async run({ quick }) {
    const place = makePlace();
    try {
      const values = await inTurns(quick ? 7 : 31, {
        ours: () => runNode([ROTUNDA, "--version"], place),
        bare: () => runNode(["-e", "0"], place),
      });
      const [ours, bare] = [median(values.ours), median(values.bare)];
      const name = "`rotunda --version`, against `node -e 0`";
      return [{ name, ours, bare, unit: "ms", value: ours / bare, valueUnit: "×", goal: 1.3 }];
    } finally {
      place.remove();
    }
  },
};

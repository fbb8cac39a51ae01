/** The clipboard's image by the programs of each system, played by scripts that print what those print. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { clipboardImage } from "../../src/doors/tui/clipboard.ts";
import { temporaryFolder } from "../support.ts";

const dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const bytes = Buffer.from(dot, "base64");

function programs(scripts: Record<string, string>): NodeJS.ProcessEnv {
  const folder = temporaryFolder();
  for (const [name, script] of Object.entries(scripts)) {
    writeFileSync(join(folder, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  }
  return { PATH: `${folder}:/usr/bin:/bin` };
}

test.skipIf(process.platform === "win32")("each system's own form", async () => {
  const hex = bytes.toString("hex").toUpperCase();
  const mac = programs({ osascript: `echo '«data PNGf${hex}»'` });
  expect(await clipboardImage(mac, "darwin")).toEqual(bytes);
  const windows = programs({ "powershell.exe": `printf '${dot}\\r\\n'` });
  expect(await clipboardImage(windows, "win32")).toEqual(bytes);
  expect(await clipboardImage({ ...windows, WSL_DISTRO_NAME: "Ubuntu" }, "linux")).toEqual(bytes);
  const x11 = programs({ xclip: `printf '${dot}' | base64 -d` });
  expect(await clipboardImage({ ...x11, DISPLAY: ":0" }, "linux")).toEqual(bytes);
  // The first that has one: a clipboard of Wayland may be empty where X has an image.
  const both = programs({ "wl-paste": "exit 1", xclip: `printf '${dot}' | base64 -d` });
  expect(await clipboardImage({ ...both, DISPLAY: ":0", WAYLAND_DISPLAY: "wayland-0" }, "linux")).toEqual(bytes);
});

test.skipIf(process.platform === "win32")("where there is none, it says why", async () => {
  const mac = programs({ osascript: "echo 'execution error: Can’t make some data (-1700)' >&2; exit 1" });
  expect(await clipboardImage(mac, "darwin")).toBe("There is no image in the clipboard.");
  expect(await clipboardImage({ PATH: "/nowhere", DISPLAY: ":0" }, "linux")).toContain("install xclip");
  expect(await clipboardImage({ PATH: "/nowhere" }, "linux")).toContain("has no clipboard");
});

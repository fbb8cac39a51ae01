/**
 * The image of the clipboard, read by the system's own programs: a terminal hands over text only.
 *
 * Invariant: no shell is asked and nothing is written; a program that is missing, fails or says nothing gives no image.
 */
import { execFile } from "node:child_process";

/** Milliseconds; a clipboard whose owner hangs must not hang us. */
const PATIENCE = 5_000;
/** Bytes of what a program may print: twice the largest image, for one of them writes hexadecimal digits. */
const MOST = 45_000_000;

interface Reader {
  command: string;
  args: readonly string[];
  /** The image in what it printed. */
  imageIn(output: Buffer): Buffer;
}

const same = (output: Buffer) => output;

const wayland: Reader = { command: "wl-paste", args: ["--no-newline", "--type", "image/png"], imageIn: same };
const x11: Reader = { command: "xclip", args: ["-selection", "clipboard", "-t", "image/png", "-o"], imageIn: same };

/** It prints `«data PNGf89504E47…»`. */
const mac: Reader = {
  command: "osascript",
  args: ["-e", "get the clipboard as «class PNGf»"],
  imageIn: (output) => Buffer.from(/PNGf([0-9A-F]+)/.exec(output.toString("utf8"))?.[1] ?? "", "hex"),
};

const windows: Reader = {
  command: "powershell.exe",
  args: [
    "-NoProfile",
    "-NonInteractive",
    "-Sta",
    "-Command",
    "Add-Type -AssemblyName System.Windows.Forms; $image = [Windows.Forms.Clipboard]::GetImage(); if ($image) { " +
      "$stream = New-Object IO.MemoryStream; $image.Save($stream, [Drawing.Imaging.ImageFormat]::Png); " +
      "[Convert]::ToBase64String($stream.ToArray()) }",
  ],
  imageIn: (output) => Buffer.from(output.toString("latin1").trim(), "base64"),
};

/** Those that can know the clipboard of this person, the likeliest first. */
function readersFor(platform: NodeJS.Platform, environment: NodeJS.ProcessEnv): readonly Reader[] {
  if (platform === "darwin") return [mac];
  if (platform === "win32") return [windows];
  const { WAYLAND_DISPLAY, DISPLAY, WSL_DISTRO_NAME } = environment;
  return [...(WAYLAND_DISPLAY ? [wayland] : []), ...(DISPLAY ? [x11] : []), ...(WSL_DISTRO_NAME ? [windows] : [])];
}

/** Bytes as they are there, not looked at. A text says why there are none. */
export async function clipboardImage(
  environment: NodeJS.ProcessEnv = process.env,
  platform: NodeJS.Platform = process.platform,
): Promise<Buffer | string> {
  const readers = readersFor(platform, environment);
  let missing: string | undefined;
  for (const reader of readers) {
    const output = await print(reader, environment);
    if (output === undefined) missing ??= reader.command;
    else if (reader.imageIn(output).length > 0) return reader.imageIn(output);
  }
  const instead = "Paste the path of an image file instead, or drop the file on the terminal";
  if (readers.length === 0) return `This terminal's machine has no clipboard that could be read. ${instead}.`;
  if (missing === undefined) return "There is no image in the clipboard.";
  const name = missing === "wl-paste" ? "wl-clipboard" : missing;
  return `To paste an image, ${missing} is needed (install ${name}). ${instead}.`;
}

/** Undefined: there is no such program. */
function print({ command, args }: Reader, env: NodeJS.ProcessEnv): Promise<Buffer | undefined> {
  return new Promise((resolve) => {
    const options = { env, encoding: "buffer", timeout: PATIENCE, maxBuffer: MOST, windowsHide: true } as const;
    execFile(command, args, options, (error, output) => {
      if (error?.code === "ENOENT") resolve(undefined);
      else resolve(error ? Buffer.alloc(0) : output);
    });
  });
}

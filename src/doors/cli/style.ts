/** Colours and terminal width. Invariant: no escape sequence leaves this program unless a terminal asked for it. */

export interface Style {
  bold(text: string): string;
  dim(text: string): string;
  red(text: string): string;
  green(text: string): string;
  yellow(text: string): string;
  cyan(text: string): string;
}

const plain = (text: string) => text;

const plainStyle: Style = { bold: plain, dim: plain, red: plain, green: plain, yellow: plain, cyan: plain };

const code = (open: number, close: number) => (text: string) => `\u001b[${open}m${text}\u001b[${close}m`;

const colourStyle: Style = {
  bold: code(1, 22),
  dim: code(2, 22),
  red: code(31, 39),
  green: code(32, 39),
  yellow: code(33, 39),
  cyan: code(36, 39),
};

/** Colours for a stream that is a terminal, unless `NO_COLOR` or `--no-color` forbids them. */
export function styleFor(stream: NodeJS.WriteStream, environment: NodeJS.ProcessEnv, color: boolean): Style {
  return color && stream.isTTY && !environment.NO_COLOR && environment.TERM !== "dumb" ? colourStyle : plainStyle;
}

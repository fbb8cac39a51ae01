/**
 * The process sandbox: the best step of a ladder that really works on this machine.
 *
 * 1 "bwrap": bubblewrap. 2 "unshare": util-linux only. Both give the process a read-only system, a writable
 * workspace, a temporary folder of its own, no network unless allowed, and namespaces that end with it and
 * with us. 3 "none": process groups only (see `process-tree.ts`); no wall at all, and never chosen silently.
 *
 * Invariant: a step is used only after a process inside it was seen to write the workspace, to fail to write
 * outside it and to be alone in its process table. Nothing is probed before the first call.
 */
import { accessSync, constants, existsSync, mkdirSync, mkdtempSync, readlinkSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, isAbsolute, join } from "node:path";
import { RotundaError } from "../types/error.ts";
import { readMounts } from "./mount-table.ts";
import { runProcess } from "./process-tree.ts";
import { type Mount, type MountPlan, planMounts, type SandboxRequest } from "./sandbox-mounts.ts";
import { isWithin } from "./workspace-path.ts";

export type { SandboxRequest } from "./sandbox-mounts.ts";

export type SandboxLevel = "bwrap" | "unshare" | "none";

export interface SandboxedCommand {
  command: string;
  args: string[];
  env: Record<string, string>;
  cwd: string;
  /** For `startProcess` and `runProcess`: the command is the outer end of a pid namespace. */
  namespaced: boolean;
  /** Steering files that it cannot make or change, relative to the workspace. */
  guarded: readonly string[];
  /** Removes what was put in place for the command. To be called when it has ended. */
  release(): void;
}

export interface Sandbox {
  readonly level: SandboxLevel;
  /** The command line that runs the request within the sandbox. Standard streams pass through untouched. Throws when the workspace does not exist. */
  wrap(request: SandboxRequest): SandboxedCommand;
  /** Only the processes are shut in: they end with the command and with us, and see files and network as we do. */
  contain(request: ContainRequest): SandboxedCommand;
}

export type ContainRequest = Pick<SandboxRequest, "command" | "args" | "env"> & { cwd: string };

const found = new Map<string, Promise<Sandbox>>();

/**
 * The sandbox of this machine, probed once. "required" throws `sandbox_missing` when no step works; "none"
 * probes nothing. `levels` leaves steps out, for tests.
 */
export async function detectSandbox(
  preference: "auto" | "required" | "none",
  levels: readonly SandboxLevel[] = ["bwrap", "unshare"],
): Promise<Sandbox> {
  if (preference === "none") return unprotected;
  const key = levels.join();
  const pending = found.get(key) ?? firstWorking(levels);
  found.set(key, pending);
  const sandbox = await pending;
  if (sandbox.level === "none" && preference === "required") {
    throw new RotundaError("sandbox_missing", "No process sandbox works on this machine, and one is required", {
      remedy: "Install bubblewrap (the command bwrap), or allow unprivileged user namespaces.",
    });
  }
  return sandbox;
}

async function firstWorking(levels: readonly SandboxLevel[]): Promise<Sandbox> {
  if (process.platform !== "linux") return unprotected;
  for (const sandbox of candidates(levels)) if (await works(sandbox)) return sandbox;
  return unprotected;
}

function* candidates(levels: readonly SandboxLevel[]): Generator<Sandbox> {
  const bwrap = findProgram("bwrap");
  if (bwrap && levels.includes("bwrap")) {
    yield bubblewrap(bwrap, true);
    yield bubblewrap(bwrap, false);
  }
  const tools = { setpriv: findProgram("setpriv"), unshare: findProgram("unshare"), mount: findProgram("mount") };
  const { setpriv, unshare, mount } = tools;
  if (setpriv && unshare && mount && levels.includes("unshare")) {
    yield namespaces({ setpriv, unshare, mount, ip: findProgram("ip") });
  }
}

const SYSTEM_FOLDERS =
  "/usr/bin /bin /usr/sbin /sbin /usr/local/bin /run/wrappers/bin /run/current-system/sw/bin".split(" ");

/** A program of the system; never one that a project put on the path. */
function findProgram(name: string): string | undefined {
  const folders = (process.env.PATH ?? "")
    .split(":")
    .filter((folder) => isAbsolute(folder) && !isWithin(process.cwd(), folder));
  for (const folder of [...SYSTEM_FOLDERS, ...folders.filter((each) => !each.includes("node_modules"))]) {
    try {
      accessSync(join(folder, name), constants.X_OK);
      return join(folder, name);
    } catch {
      // Not here.
    }
  }
  return undefined;
}

/** Runs a process in it and looks at what the process could do. */
async function works(sandbox: Sandbox): Promise<boolean> {
  const folder = mkdtempSync(join(tmpdir(), "rotunda-probe-"));
  const workspace = join(folder, "workspace");
  mkdirSync(workspace);
  const check =
    '[ "$(readlink /proc/self/ns/pid)" != "$2" ] && : > inside && { ( : > "$1" ) 2>/dev/null || :; } && ! ( : > /etc/rotunda-probe ) 2>/dev/null';
  try {
    const wrapped = sandbox.wrap({
      command: "/bin/sh",
      args: ["-c", check, "sh", join(folder, "outside"), readlinkSync("/proc/self/ns/pid")],
      workspace,
      readOnly: false,
      network: false,
      env: childEnvironment(),
      guardAbsent: false,
    });
    const { exitCode } = await runProcess({ ...wrapped, timeout: 5000 });
    wrapped.release();
    return exitCode === 0 && existsSync(join(workspace, "inside")) && !existsSync(join(folder, "outside"));
  } catch {
    return false;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const unprotected: Sandbox = {
  level: "none",
  wrap: ({ command, args, env, cwd, workspace }) => {
    return { command, args, env, cwd: cwd ?? workspace, namespaced: false, guarded: [], release: () => undefined };
  },
  contain: (request) => ({ ...request, namespaced: false, guarded: [], release: () => undefined }),
};

/**
 * The first process of the namespace: the last words of its line are the command. When it ends, the kernel ends
 * all others, before the outer end does.
 */
const FIRST_PROCESS = '"$@"; exit $?';

function insideEnvironment(env: Record<string, string>): Record<string, string> {
  return { ...env, TMPDIR: "/tmp" };
}

/** Parts of `/proc` that change the system. The real root may write them without any capability, and bwrap leaves them open. */
const CONTROLS = "sys sysrq-trigger irq bus fs acpi".split(" ");

/** Step 1. Without a user namespace (as root, or where bwrap is setuid) the kernel's own root is kept out by dropping its rights. */
function bubblewrap(bwrap: string, userNamespace: boolean): Sandbox {
  const root = process.getuid?.() === 0;
  const wrap = (request: SandboxRequest): SandboxedCommand => {
    // In a user namespace root is an ordinary user to everybody else's files.
    const foreign = root && statSync(request.workspace).uid !== 0;
    const plan = planMounts(request, foreign);
    // A workspace that is all there is comes first: over them, it would bring the machine's own processes and devices back.
    const whole = plan.mounts.find(({ path }) => path === "/");
    const args = [...(whole ? [...bubblewrapMount(whole), "--ro-bind", "/sys", "/sys"] : ["--ro-bind", "/", "/"])];
    args.push("--dev", "/dev", "--proc", "/proc");
    for (const name of CONTROLS) args.push("--ro-bind-try", `/proc/${name}`, `/proc/${name}`);
    for (const mount of plan.mounts) if (mount !== whole) args.push(...bubblewrapMount(mount));
    for (const { kind, path, directory } of plan.mounts) {
      if (kind === "hidden" && directory) args.push("--remount-ro", path);
    }
    args.push("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--die-with-parent", "--new-session", "--as-pid-1");
    if (userNamespace && !foreign) args.push("--unshare-user");
    if (!request.network) args.push("--unshare-net");
    args.push("--cap-drop", "ALL");
    if (foreign) for (const name of ["CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_CHOWN"]) args.push("--cap-add", name);
    args.push("--chdir", request.cwd ?? plan.workspace, "--", "/bin/sh", "-c", FIRST_PROCESS, "sh");
    return {
      command: bwrap,
      args: [...args, request.command, ...request.args],
      env: insideEnvironment(request.env),
      cwd: "/",
      namespaced: true,
      guarded: plan.guarded,
      release: plan.release,
    };
  };
  const contain = ({ command, args, env, cwd }: ContainRequest): SandboxedCommand => {
    const flags = ["--dev-bind", "/", "/", "--proc", "/proc", "--unshare-pid", "--die-with-parent", "--as-pid-1"];
    if (userNamespace) flags.push("--unshare-user");
    return {
      command: bwrap,
      args: [...flags, "--chdir", cwd, "--", "/bin/sh", "-c", FIRST_PROCESS, "sh", command, ...args],
      env,
      cwd: "/",
      namespaced: true,
      guarded: [],
      release: () => undefined,
    };
  };
  return { level: "bwrap", wrap, contain };
}

function bubblewrapMount({ kind, path, directory }: Mount): string[] {
  if (kind === "writable") return ["--bind", path, path];
  if (kind === "readOnly") return ["--ro-bind", path, path];
  if (kind === "private") return ["--perms", "1777", "--tmpfs", path];
  return directory ? ["--tmpfs", path] : ["--ro-bind", "/dev/null", path];
}

interface NamespaceTools {
  setpriv: string;
  unshare: string;
  mount: string;
  ip: string | undefined;
}

/** Step 2. A shell of the new namespaces arranges the mounts, keeps the first process id and runs the command without any right over them. */
function namespaces(tools: NamespaceTools): Sandbox {
  const uid = process.getuid?.() ?? 0;
  const gid = process.getgid?.() ?? 0;
  const drop =
    uid === 0
      ? [tools.setpriv, "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all", "--"]
      : [
          tools.unshare,
          "--user",
          `--map-user=${uid}`,
          `--map-group=${gid}`,
          "--",
          tools.setpriv,
          "--no-new-privs",
          "--",
        ];
  const wrap = (request: SandboxRequest): SandboxedCommand => {
    const plan = planMounts(request);
    const script = prologue(plan, request, tools);
    const flags = [
      "--user",
      "--map-root-user",
      "--mount",
      "--pid",
      "--ipc",
      "--uts",
      "--fork",
      "--kill-child",
      "--mount-proc",
    ];
    if (!request.network) flags.push("--net");
    return {
      command: tools.setpriv,
      args: [
        ...["--pdeathsig", "KILL", "--", "/bin/sh", "-c", QUIET_OUTSIDE, "sh"],
        ...[tools.unshare, ...flags, "--", "/bin/sh", "-c", script, "sh"],
        ...[...drop, request.command, ...request.args],
      ],
      env: insideEnvironment(request.env),
      cwd: "/",
      namespaced: true,
      guarded: plan.guarded,
      release: plan.release,
    };
  };
  const contain = ({ command, args, env, cwd }: ContainRequest): SandboxedCommand => {
    const flags = ["--pid", "--fork", "--kill-child", "--mount-proc"];
    if (uid !== 0) flags.unshift("--user", `--map-user=${uid}`, `--map-group=${gid}`);
    return {
      command: tools.setpriv,
      args: [
        ...["--pdeathsig", "KILL", "--", "/bin/sh", "-c", QUIET_OUTSIDE, "sh", tools.unshare, ...flags, "--"],
        ...["/bin/sh", "-c", `exec 2>&9 9>&-; ${FIRST_PROCESS}`, "sh", command, ...args],
      ],
      env,
      cwd,
      namespaced: true,
      guarded: [],
      release: () => undefined,
    };
  };
  return { level: "unshare", wrap, contain };
}

/** `unshare` complains on the command's standard error when the command is killed; inside, that is put back. */
const QUIET_OUTSIDE = 'exec 9>&2 2>/dev/null; exec "$@"';
const CGROUPS = "/sys/fs/cgroup";
const DEVICES = "null zero full random urandom tty".split(" ");

function prologue(plan: MountPlan, request: SandboxRequest, tools: NamespaceTools): string {
  const mount = `${quote(tools.mount)} -n`;
  const root = process.getuid?.() === 0;
  const kept = plan.mounts.filter(({ kind }) => kind === "writable" || kind === "readOnly");
  const writable = kept.filter(({ kind }) => kind === "writable").map(({ path }) => path);
  const lines = ["exec 2>&9 9>&-", "set -e", "umask 022"];
  // Mounts of their own, so that making the rest read-only leaves them alone.
  for (const path of writable) lines.push(`${mount} --rbind ${quote(path)} ${quote(path)}`);
  const covered = root ? ["/proc", "/dev", CGROUPS] : ["/proc", "/dev/pts", "/dev/shm", CGROUPS];
  for (const { path, options } of readMounts()) {
    if (options.includes("ro") || [...covered, ...writable].some((folder) => isWithin(folder, path))) continue;
    const flags = ["remount", "bind", ...options.map((option) => (option === "rw" ? "ro" : option))].join();
    lines.push(`${mount} -o ${flags} ${quote(path)} 2>/dev/null || ! [ -e ${quote(path)} ] || exit 126`);
  }
  lines.push(`! [ -d ${CGROUPS} ] || ${mount} -t tmpfs -o ro tmpfs ${CGROUPS}`);
  // `/sys` serves as the place where everything is at hand while folders above it are being emptied.
  lines.push(`${mount} -t tmpfs tmpfs /sys`, "mkdir /sys/dev", `${mount} --rbind /dev /sys/dev`);
  kept.forEach(({ path, directory }, index) => {
    lines.push(
      directory ? `mkdir /sys/${index}` : `: > /sys/${index}`,
      `${mount} --rbind ${quote(path)} /sys/${index}`,
    );
  });
  const holders = new Set(
    plan.mounts.filter(({ path }) => kept.some((each) => each.path !== path && isWithin(path, each.path))),
  );
  for (const each of plan.mounts) lines.push(...arrange(each, kept.indexOf(each), mount, holders.has(each)));
  for (const { kind, path, directory } of holders) {
    if (kind === "hidden" && directory) lines.push(`${mount} -o remount,bind,ro,nosuid,nodev ${quote(path)}`);
  }
  // Only the real root could do harm through devices and the switches of the system.
  lines.push(
    ...(root ? privateDevices(mount) : [`${mount} -t tmpfs -o mode=1777 tmpfs /dev/shm`]),
    "umount -n -l /sys",
  );
  if (root) for (const name of CONTROLS) lines.push(`! [ -e /proc/${name} ] || ${readOnly(mount, `/proc/${name}`)}`);
  if (!request.network && tools.ip) lines.push(`${quote(tools.ip)} link set lo up 2>/dev/null || :`);
  lines.push(`cd ${quote(request.cwd ?? plan.workspace)}`, "set +e", FIRST_PROCESS);
  return lines.join("\n");
}

function privateDevices(mount: string): string[] {
  const lines = [`${mount} -t tmpfs -o mode=755 tmpfs /dev`, "mkdir /dev/pts", "mkdir -m 1777 /dev/shm"];
  for (const name of DEVICES) lines.push(`: > /dev/${name}`, `${mount} --bind /sys/dev/${name} /dev/${name}`);
  lines.push(`${mount} -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts /dev/pts`, "ln -s pts/ptmx /dev/ptmx");
  for (const [name, number] of Object.entries({ stdin: 0, stdout: 1, stderr: 2 })) {
    lines.push(`ln -s /proc/self/fd/${number} /dev/${name}`);
  }
  return [...lines, "ln -s /proc/self/fd /dev/fd"];
}

/** `holds`: something inside it has to be mounted first. */
function arrange({ kind, path, directory }: Mount, index: number, mount: string, holds: boolean): string[] {
  const at = quote(path);
  if (kind === "private") return [`${mount} -t tmpfs -o mode=1777,nosuid,nodev tmpfs ${at}`];
  if (kind === "hidden" && directory)
    return [`${mount} -t tmpfs -o ${holds ? "rw" : "ro"},mode=755,nosuid,nodev tmpfs ${at}`];
  if (kind === "hidden") return [`${mount} --bind /sys/dev/null ${at} 2>/dev/null || ! [ -e ${at} ] || exit 126`];
  const place = directory
    ? `[ -e ${at} ] || mkdir -p ${at}`
    : `[ -e ${at} ] || { mkdir -p ${quote(dirname(path))}; : > ${at}; }`;
  const lines = [place, `${mount} --rbind /sys/${index} ${at}`];
  if (kind === "readOnly") lines.push(`${mount} -o remount,bind,ro ${at}`);
  return lines;
}

function readOnly(mount: string, path: string): string {
  return `{ ${mount} --bind ${path} ${path} && ${mount} -o remount,bind,ro ${path}; }`;
}

function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

const PASSED = new Set(
  [
    "PATH HOME SHELL TERM COLORTERM LANG LANGUAGE USER LOGNAME TMPDIR TZ NO_COLOR",
    "NODE_EXTRA_CA_CERTS SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE GIT_SSL_CAINFO",
    "HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY http_proxy https_proxy all_proxy no_proxy",
    "XDG_CONFIG_HOME XDG_CACHE_HOME XDG_DATA_HOME JAVA_HOME GOPATH GOROOT CARGO_HOME RUSTUP_HOME NVM_DIR VOLTA_HOME",
    "PYENV_ROOT VIRTUAL_ENV CONDA_PREFIX SystemRoot ComSpec PATHEXT TEMP TMP APPDATA LOCALAPPDATA USERPROFILE",
  ].flatMap((line) => line.split(" ")),
);
const DENIED = /KEY|TOKEN|SECRET|PASSWORD/i;
/** A proxy's address may carry a password. */
const CREDENTIALS = /\/\/[^/@]*@/;

/** The environment for a child process: an allow-list of ours, and what the caller adds by its own decision. */
export function childEnvironment(extra: Record<string, string> = {}): Record<string, string> {
  const environment: Record<string, string> = {};
  for (const [name, value] of Object.entries(process.env)) {
    if (value === undefined || DENIED.test(name) || CREDENTIALS.test(value)) continue;
    if (PASSED.has(name) || name.startsWith("LC_")) environment[name] = value;
  }
  return { ...environment, ...extra };
}

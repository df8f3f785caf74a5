/**
 * Boots the lab kernel (user-mode Linux, a Linux kernel that runs as an ordinary program, with IPVS), runs one command
 * in it and shuts it down. The guest sees the machine's file system and writes only to memory. README.md explains the
 * parameters.
 */
import { type ChildProcess, spawn } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { Readable } from "node:stream";
import { allowedCpu } from "./kernel-needs.ts";

/** The binary and modules of Debian's package `user-mode-linux`, or those that `make lab-kernel` built. */
export interface LabKernel {
  readonly binary: string;
  /** Folder with the modules, named after the kernel's version. */
  readonly modules: string;
}

/** The backend of the command `iptables`. With "none", neither iptables nor ipset is installed. */
export type IptablesVariant = "legacy" | "nft" | "none";

export interface GuestCommand {
  readonly argv: readonly string[];
  readonly workingDirectory: string;
  readonly environment: Readonly<Record<string, string>>;
}

export interface LabOptions {
  /** The processor to which the lab kernel is pinned. Without pinning, it is three to four times slower. */
  readonly cpu: number;
  /** Memory size in the format of the `mem=` parameter: `2G`. */
  readonly memory: string;
  readonly timeoutSeconds: number;
  /** With "absent", the modules are not loaded and cannot be loaded. */
  readonly ipvs: "present" | "absent";
  /** The iptables backend, by default legacy. The Debian package's kernel has no other. */
  readonly iptables?: IptablesVariant;
  /**
   * A tap device in this network namespace that becomes the lab kernel's link `vec0`. If undefined, the lab kernel has
   * no external network.
   */
  readonly tap?: string;
  /**
   * Size of the terminal that serves as the command's standard input and output. If absent, the command has no input.
   */
  readonly terminal?: TerminalSize;
}

export interface TerminalSize {
  readonly rows: number;
  readonly columns: number;
}

export interface Output {
  stdout(chunk: Buffer): void;
  stderr(chunk: Buffer): void;
}

export type LabResult =
  /** `cpuSeconds` is the CPU time of the whole lab on this machine. Absent if the lab does not count it. */
  | { readonly kind: "exited"; readonly status: number; readonly cpuSeconds?: number }
  | { readonly kind: "timed-out" }
  /** The signal was aborted. */
  | { readonly kind: "stopped" }
  /** The kernel exited before the command did. `console` contains the kernel's last lines. */
  | { readonly kind: "died"; readonly console: string };

const BINARY = "/usr/bin/linux.uml";
const MODULES = "/usr/lib/uml/modules";
const SCRIPTS: string = import.meta.dirname;
const PROJECT: string = join(SCRIPTS, "../..");
const FETCHED: string = join(PROJECT, "build/lab/kernel");
/** See uml-registers.c. `make lab` builds it. */
const REGISTERS_LIBRARY: string = join(PROJECT, "build/lab/uml-registers.so");

/**
 * Prevents measurements at boot (loop speed and the fastest RAID 6 code), which take a sixth of a boot's CPU time. The
 * given number of loops per tick is an upper bound, so delays may be too long.
 */
const withoutMeasuring = ["lpj=50000000", "initcall_blacklist=raid6_select_algo"];

/**
 * Time limit for a boot, because a lab kernel once hung for an unknown reason. A boot takes 3 s, or 20 s on a busy
 * machine.
 */
const bootSeconds = 180;
const mostBoots = 2;

/**
 * Finds the lab kernel: the one in `folder`, else the one that toolchain/extract-lab-kernel.sh fetched, else the
 * installed one. Undefined if there is none.
 */
export function findLabKernel(
  folder: string | undefined = existsSync(FETCHED) ? FETCHED : undefined,
): LabKernel | undefined {
  const binary = folder === undefined ? BINARY : join(folder, "linux");
  const modules = folder === undefined ? MODULES : join(folder, "modules");
  if (!existsSync(binary) || !existsSync(modules)) return undefined;
  const version = readdirSync(modules).sort().at(-1);
  return version === undefined ? undefined : { binary, modules: join(modules, version) };
}

/** Environment variables for the lab kernel's program. */
export function kernelEnvironment(): Readonly<Record<string, string>> {
  return existsSync(REGISTERS_LIBRARY) ? { LD_PRELOAD: REGISTERS_LIBRARY } : {};
}

/** Runs `command` in a new lab kernel. An aborted `signal` ends it immediately. */
export async function runInLabKernel(
  kernel: LabKernel,
  command: GuestCommand,
  options: LabOptions,
  output: Output,
  signal?: AbortSignal,
): Promise<LabResult> {
  for (let attempt = 1; ; attempt += 1) {
    const result = await bootOnce(kernel, command, options, output, signal);
    if (result !== "not-booted") return result;
    if (attempt === mostBoots) return { kind: "died", console: `not booted in ${bootSeconds} s` };
    output.stderr(Buffer.from(`lab: not booted within ${bootSeconds} s; retrying\n`));
  }
}

async function bootOnce(
  kernel: LabKernel,
  command: GuestCommand,
  options: LabOptions,
  output: Output,
  signal: AbortSignal | undefined,
): Promise<LabResult | "not-booted"> {
  const labDirectory = mkdtempSync(join(tmpdir(), "kube-ipvs-lab-"));
  const hasBooted = (): boolean => existsSync(join(labDirectory, "booted"));
  try {
    writeCommand(labDirectory, kernel, command, options);
    linkIptables(join(labDirectory, "bin"), options.iptables ?? "legacy");
    const child = startKernel(kernel, labDirectory, options);
    const console = collect(child, output);
    const watchdog = setTimeout(() => {
      if (!hasBooted()) child.kill("SIGKILL");
    }, bootSeconds * 1000);
    const timedOut = await waitForEnd(child, options.timeoutSeconds * 1000, signal);
    clearTimeout(watchdog);
    if (timedOut) return { kind: "timed-out" };
    if (signal?.aborted === true) return { kind: "stopped" };
    if (!hasBooted() && child.signalCode === "SIGKILL") return "not-booted";
    const status = readStatus(labDirectory);
    if (status === undefined) return { kind: "died", console: console() };
    return { kind: "exited", status, ...readCpuSeconds(labDirectory) };
  } finally {
    rmSync(labDirectory, { recursive: true, force: true });
  }
}

/** Writes the command and its environment to the folder that is shared with the guest. */
function writeCommand(
  labDirectory: string,
  kernel: LabKernel,
  command: GuestCommand,
  options: LabOptions,
): void {
  const environment = {
    ...command.environment,
    LAB_MODULES: kernel.modules,
    LAB_IPVS: options.ipvs,
    LAB_IPTABLES: options.iptables ?? "legacy",
    ...terminalEnvironment(options.terminal),
  };
  const assignments = Object.entries(environment).map(
    ([name, value]) => `export ${name}=${shellQuote(value)}\n`,
  );
  writeFileSync(join(labDirectory, "environment"), assignments.join(""));
  const line = command.argv.map(shellQuote).join(" ");
  const script = `cd ${shellQuote(command.workingDirectory)} || exit 1\nexec ${line}\n`;
  writeFileSync(join(labDirectory, "command"), script);
}

/** The Debian package's lab kernel supports only the legacy backend, regardless of the machine's own commands. */
function linkIptables(folder: string, variant: IptablesVariant): void {
  mkdirSync(folder);
  if (variant === "none") return;
  for (const family of ["iptables", "ip6tables"]) {
    for (const ending of ["", "-save", "-restore"])
      symlinkSync(`/usr/sbin/xtables-${variant}-multi`, join(folder, family + ending));
  }
}

function terminalEnvironment(size: TerminalSize | undefined): Record<string, string> {
  return size === undefined
    ? {}
    : { LAB_ROWS: String(size.rows), LAB_COLUMNS: String(size.columns) };
}

export function shellQuote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/**
 * Standard output contains kernel messages. Descriptors 3 and 4 are terminals 1 and 2, with the command's output.
 * Descriptors 0 and 5 are terminal 3, if the command has one.
 */
function startKernel(kernel: LabKernel, labDirectory: string, options: LabOptions): ChildProcess {
  const parameters = [
    `mem=${options.memory}`,
    "root=/dev/root",
    "rootfstype=hostfs",
    "ro",
    `init=${join(SCRIPTS, "init.sh")}`,
    `LAB_DIR=${labDirectory}`,
    `LAB_MODULES=${kernel.modules}`,
    `uml_dir=${labDirectory}/`,
    "con=null",
    "con0=null,fd:1",
    "con1=null,fd:3",
    "con2=null,fd:4",
    ...(options.terminal === undefined ? [] : ["con3=fd:0,fd:5"]),
    "quiet",
    ...withoutMeasuring,
    ...(options.tap === undefined ? [] : [`vec0:transport=tap,ifname=${options.tap},depth=128`]),
  ];
  // The process namespace ends with this process, which kills all of the kernel's processes.
  const isolate = [
    ...["--pdeathsig", "KILL", "unshare", "--pid", "--fork", "--kill-child"],
    ...["--mount", "--propagation", "private"],
  ];
  // The kernel stores its memory in a file in /dev/shm, which often has only 64 MB in containers.
  const memory = "mount -t tmpfs -o size=100% lab /dev/shm || exit 125";
  // The kernel must not be the first process of that namespace, because its own SIGABRT would not end it, and a panic
  // would hang.
  const notFirst = ["sh", "-c", `${memory}; "$@"; times > "$HOME/times"`, "sh"];
  const pin = ["taskset", "-c", String(allowedCpu(options.cpu))];
  return spawn("setpriv", [...isolate, ...notFirst, ...pin, kernel.binary, ...parameters], {
    stdio:
      options.terminal === undefined
        ? ["ignore", "pipe", "pipe", "pipe", "pipe"]
        : ["inherit", "pipe", "pipe", "pipe", "pipe", process.stdout.fd],
    env: { PATH: process.env["PATH"] ?? "", HOME: labDirectory, ...kernelEnvironment() },
  });
}

/** Forwards the command's output. The returned function provides the last lines of the kernel's console. */
function collect(child: ChildProcess, output: Output): () => string {
  let console = "";
  const keep = (chunk: Buffer): void => {
    console = (console + chunk.toString()).slice(-8192);
  };
  (child.stdio[1] as Readable).on("data", keep);
  (child.stdio[2] as Readable).on("data", keep);
  (child.stdio[3] as Readable).on("data", (chunk: Buffer) => output.stdout(chunk));
  (child.stdio[4] as Readable).on("data", (chunk: Buffer) => output.stderr(chunk));
  return () => console;
}

/** Resolves when the kernel has exited and its output has been read. True if it was killed because of the timeout. */
function waitForEnd(
  child: ChildProcess,
  timeoutMs: number,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  return new Promise((resolve, reject) => {
    let timedOut = false;
    const kill = (): void => void child.kill("SIGKILL");
    const timer = setTimeout(() => {
      timedOut = true;
      kill();
    }, timeoutMs);
    signal?.addEventListener("abort", kill, { once: true });
    child.once("error", reject);
    child.once("close", () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", kill);
      resolve(timedOut);
    });
  });
}

function readStatus(labDirectory: string): number | undefined {
  const path = join(labDirectory, "status");
  return existsSync(path) ? Number(readFileSync(path, "utf8").trim()) : undefined;
}

function readCpuSeconds(labDirectory: string): { readonly cpuSeconds?: number } {
  const path = join(labDirectory, "times");
  const cpuSeconds = existsSync(path) ? childrenSeconds(readFileSync(path, "utf8")) : undefined;
  return cpuSeconds === undefined ? {} : { cpuSeconds };
}

/**
 * Parses the output of the shell's `times`: the second line, `0m4.20s 0m10.26s`, contains the user and system time of
 * its child processes.
 */
export function childrenSeconds(times: string): number | undefined {
  const parts = [...(times.split("\n")[1] ?? "").matchAll(/(\d+)m([\d.]+)s/g)];
  if (parts.length === 0) return undefined;
  return parts.reduce((total, [, minutes, rest]) => total + 60 * Number(minutes) + Number(rest), 0);
}

/** PATH for commands in the lab. The first folder contains the running Node.js. */
export function labPath(): string {
  return `${dirname(process.execPath)}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin`;
}

import { existsSync, readFileSync } from "node:fs";
import { release } from "node:os";
import type { Modules } from "../kernel.ts";
import { readKernelFile, writeKernelFile } from "../kernel-file.ts";
import { ProgramError, type RunProgram } from "../program.ts";
import { ModuleError } from "./module-error.ts";

export interface ModulesOptions {
  /** The folders in which the kernel lists modules. Tests use other folders. */
  readonly sysFolder?: string;
  readonly procFolder?: string;
  /** Folders that contain the kernel modules and their index, with one subfolder per kernel release. */
  readonly modulesFolders?: readonly string[];
  /** Release of the running kernel, such as `6.1.0-13-amd64`. */
  readonly kernelRelease?: string;
}

/** Where modprobe looks on various distributions. The last folder is for NixOS. */
const modulesFolders = [
  "/lib/modules",
  "/usr/lib/modules",
  "/run/booted-system/kernel-modules/lib/modules",
];

/** modprobe may wait for hardware or for another modprobe process. */
const loadTimeoutMs = 30_000;

/** Kernel modules: checks which are loaded or built in, and loads modules with modprobe. */
export class ModulesClient implements Modules {
  readonly #runProgram: RunProgram;
  readonly #options: Required<ModulesOptions>;

  constructor(collaborators: { readonly runProgram: RunProgram }, options: ModulesOptions = {}) {
    this.#runProgram = collaborators.runProgram;
    this.#options = {
      sysFolder: "/sys",
      procFolder: "/proc",
      modulesFolders,
      kernelRelease: release(),
      ...options,
    };
  }

  /**
   * Loaded modules are listed in /sys/module or /proc/modules. Built-in modules are listed in a file of the kernel
   * package, which containers often lack. Without that file, a module that is not loaded may be built in, so the answer
   * is undefined.
   */
  isAvailable(name: string): boolean | undefined {
    checkName(name);
    if (this.#isLoaded(name)) return true;
    return this.#isBuiltIn(name);
  }

  /** Whether modprobe would find a file for the module. Undefined if this kernel's modules are not visible. */
  isLoadable(name: string): boolean | undefined {
    checkName(name);
    const folder = this.releaseFolder;
    const index = folder === undefined ? undefined : readIfThere(`${folder}/modules.dep`);
    // Lines have the form `kernel/net/netfilter/ipvs/ip_vs.ko.xz: kernel/net/…`.
    return index?.split("\n").some((line) => {
      const path = line.slice(0, Math.max(0, line.indexOf(":")));
      const file = path.slice(path.lastIndexOf("/") + 1);
      return underscored(file.replace(/\.ko(?:\.\w+)?$/, "")) === underscored(name);
    });
  }

  /**
   * The folder with the running kernel's modules. Undefined if there is none, for example if it exists on the node but
   * not in this container.
   */
  get releaseFolder(): string | undefined {
    const { modulesFolders, kernelRelease } = this.#options;
    return modulesFolders.map((folder) => `${folder}/${kernelRelease}`).find(existsSync);
  }

  /** Rejects with a {@link ModuleError}. Does not run modprobe if there is nothing to load. */
  async load(name: string): Promise<void> {
    if (this.isAvailable(name) === true) return;
    if (this.releaseFolder === undefined) throw this.#notHere(name);
    try {
      const result = await this.#runProgram({
        program: "modprobe",
        arguments: ["--", name],
        timeoutMs: loadTimeoutMs,
      });
      if (result.exitCode === 0) return;
      throw this.#refusal(name, result.errorOutput);
    } catch (error) {
      if (error instanceof ProgramError) throw this.#notRun(name, error);
      throw error;
    }
  }

  readParameter(name: string, parameter: string): string | undefined {
    const file = this.#parameterFile(name, parameter);
    return readKernelFile(file, `read module parameter ${file}`);
  }

  writeParameter(name: string, parameter: string, value: string): void {
    const file = this.#parameterFile(name, parameter);
    writeKernelFile(file, value, `set module parameter ${file} to ${value}`, (code) =>
      unwritable.has(code)
        ? `${file} is not writable; set it on the node, or run kube-ipvs with ` +
          "--init-only in a privileged init container"
        : "",
    );
  }

  #parameterFile(name: string, parameter: string): string {
    for (const part of [name, parameter]) checkName(part);
    return `${this.#options.sysFolder}/module/${underscored(name)}/parameters/${parameter}`;
  }

  #isLoaded(name: string): boolean {
    const { sysFolder, procFolder } = this.#options;
    if (existsSync(`${sysFolder}/module/${underscored(name)}`)) return true;
    const loaded = readIfThere(`${procFolder}/modules`);
    return (loaded ?? "").split("\n").some((line) => line.split(" ")[0] === underscored(name));
  }

  /** The file has one path per line, such as `kernel/net/netfilter/ipvs/ip_vs.ko`. */
  #isBuiltIn(name: string): boolean | undefined {
    const folder = this.releaseFolder;
    const list = folder === undefined ? undefined : readIfThere(`${folder}/modules.builtin`);
    if (list === undefined) return undefined;
    return list.split("\n").some((path) => {
      const file = path.slice(path.lastIndexOf("/") + 1);
      return underscored(file.replace(/\.ko$/, "")) === underscored(name);
    });
  }

  #notHere(name: string): ModuleError {
    const { modulesFolders, kernelRelease } = this.#options;
    const problem = `${modulesFolders[0]}/${kernelRelease} does not exist`;
    const advice = `mount the node's /lib/modules into the container, or run modprobe ${name} on the node`;
    return new ModuleError(name, problem, advice);
  }

  #refusal(name: string, errorOutput: string): ModuleError {
    const { kernelRelease } = this.#options;
    const words = errorOutput
      .trim()
      .replaceAll(/\s*\n\s*/g, "; ")
      .slice(0, 300);
    const problem = words === "" ? "modprobe failed" : words;
    if (/operation not permitted|permission denied/i.test(words)) {
      const advice = `grant CAP_SYS_MODULE, or run modprobe ${name} on the node`;
      return new ModuleError(name, problem, advice);
    }
    const advice =
      `the running kernel ${kernelRelease} must have the module, loadable or built in ` +
      `(some distributions ship it in an extra package)`;
    return new ModuleError(name, problem, advice);
  }

  #notRun(name: string, cause: ProgramError): ModuleError {
    const { kernelRelease } = this.#options;
    const advice = `install kmod, or run modprobe ${name} on the node (kernel ${kernelRelease})`;
    return new ModuleError(name, cause.message, advice, cause);
  }
}

const unwritable: ReadonlySet<string> = new Set(["EROFS", "EACCES", "EPERM", "ENOTSUP"]);

/** The name becomes an argument of modprobe, so it must not look like an option or a path. */
function checkName(name: string): void {
  if (/^[A-Za-z0-9][A-Za-z0-9_-]{0,54}$/.test(name)) return;
  throw new Error(`Not a kernel module name: ${JSON.stringify(name)}`);
}

/** Converts a file name to the module name: file names may contain dashes, but module names contain underscores. */
function underscored(name: string): string {
  return name.replaceAll("-", "_");
}

function readIfThere(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8");
  } catch {
    // A missing file and an unreadable file are treated alike, because neither shows which modules exist.
    return undefined;
  }
}

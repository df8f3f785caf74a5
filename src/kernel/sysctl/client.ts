import { readFileSync, writeFileSync } from "node:fs";
import { errorText } from "../../base/error-text.ts";
import type { Sysctl } from "../kernel.ts";

/** A value that could not be read or set, with what the operator can do. */
export class SysctlError extends Error {
  readonly path: string;
  /** The errno name: `EROFS`. */
  readonly code: string;

  constructor(action: string, path: string, cause: unknown, advice: string) {
    const code = codeOf(cause);
    super(`Cannot ${action}: ${code}${advice === "" ? "" : ` (${advice})`}`, { cause });
    this.name = "SysctlError";
    this.path = path;
    this.code = code;
  }
}

/**
 * /proc/sys. Synchronous on purpose: `net.*` belongs to the network namespace of the thread that opens the
 * file, and the thread pool may be in another.
 */
export class SysctlClient implements Sysctl {
  readonly #folder: string;

  constructor(folder = "/proc/sys") {
    this.#folder = folder;
  }

  read(path: string): string | undefined {
    try {
      return readFileSync(this.#file(path), "utf8").trim();
    } catch (error) {
      if (codeOf(error) === "ENOENT") return undefined;
      throw new SysctlError(`read sysctl ${path}`, path, error, "");
    }
  }

  /** Only the shape of blanks may differ: the kernel prints several numbers with tabs between. */
  ensure(path: string, value: string): boolean {
    const present = this.read(path);
    if (present !== undefined && words(present) === words(value)) return false;
    try {
      writeFileSync(this.#file(path), value, { flag: "r+" });
    } catch (error) {
      throw writeError(path, value, present, error);
    }
    return true;
  }

  #file(path: string): string {
    if (!/^[A-Za-z0-9_.-]+(?:\/[A-Za-z0-9_.:@-]+)*$/.test(path) || path.includes("..")) {
      throw new Error(`Not a sysctl path: ${JSON.stringify(path)}`);
    }
    return `${this.#folder}/${path}`;
  }
}

function words(value: string): string {
  return value.trim().replaceAll(/\s+/g, " ");
}

function writeError(
  path: string,
  value: string,
  present: string | undefined,
  cause: unknown,
): SysctlError {
  const found = present === undefined ? "" : `, which is ${present}`;
  const action = `set sysctl ${path.replaceAll("/", ".")}${found}, to ${value}`;
  return new SysctlError(action, path, cause, advice(path, value, codeOf(cause)));
}

/** What to do about it, by error. */
function advice(path: string, value: string, code: string): string {
  const command = `sysctl -w ${path.replaceAll("/", ".")}=${value}`;
  switch (code) {
    case "EROFS":
    case "EACCES":
    case "EPERM":
      return (
        `/proc/sys is not writable; run "${command}" on the node, ` +
        "or run kube-ipvs with --init-only in a privileged init container"
      );
    case "ENOENT":
      return "the kernel has no such sysctl; its module may not be loaded";
    case "EINVAL":
      return "the kernel does not accept this value";
    default:
      return "";
  }
}

function codeOf(error: unknown): string {
  if (error instanceof Error && "code" in error) return String(error.code);
  return errorText(error);
}

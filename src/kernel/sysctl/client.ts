import type { Sysctl } from "../kernel.ts";
import { readKernelFile, writeKernelFile } from "../kernel-file.ts";

/**
 * /proc/sys. Deliberately synchronous: `net.*` depends on the network namespace of the thread that opens the file, and
 * pool threads may be in a different one.
 */
export class SysctlClient implements Sysctl {
  readonly #folder: string;

  constructor(folder = "/proc/sys") {
    this.#folder = folder;
  }

  read(path: string): string | undefined {
    return readKernelFile(this.#file(path), `read sysctl ${path}`);
  }

  /** Whitespace is ignored when comparing, because the kernel separates multiple numbers with tabs. */
  ensure(path: string, value: string): boolean {
    const present = this.read(path);
    if (present !== undefined && words(present) === words(value)) return false;
    const found = present === undefined ? "" : ` (currently ${present})`;
    const action = `set sysctl ${path.replaceAll("/", ".")} to ${value}${found}`;
    writeKernelFile(this.#file(path), value, action, (code) => advice(path, value, code));
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

/** Advice for the operator, by error. */
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

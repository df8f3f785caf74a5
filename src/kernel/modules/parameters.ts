import { readFileSync, writeFileSync } from "node:fs";
import { errorText } from "../../base/error-text.ts";

/** A parameter of a loaded module that could not be read or set. */
class ParameterError extends Error {
  override readonly name = "ParameterError";
  /** The errno name: `EROFS`. */
  readonly code: string;

  constructor(action: string, file: string, cause: unknown) {
    const code = cause instanceof Error && "code" in cause ? String(cause.code) : errorText(cause);
    const advice = ["EROFS", "EACCES", "EPERM", "ENOTSUP"].includes(code)
      ? ` (${file} is not writable; write it on the node, or run kube-ipvs with ` +
        "--init-only in a privileged init container)"
      : "";
    super(`Cannot ${action}: ${code}${advice}`, { cause });
    this.code = code;
  }
}

/** The parameter's text; undefined where there is none. Throws {@link ParameterError}. */
export function readParameter(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8").trim();
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw new ParameterError(`read module parameter ${file}`, file, error);
  }
}

/** Throws {@link ParameterError}. */
export function writeParameter(file: string, value: string): void {
  try {
    writeFileSync(file, value, { flag: "r+" });
  } catch (error) {
    throw new ParameterError(`set module parameter ${file} to ${value}`, file, error);
  }
}

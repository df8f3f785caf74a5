/** Files of /proc and /sys that hold one value. */
import { readFileSync, writeFileSync } from "node:fs";
import { errorText } from "../base/error-text.ts";

/** A value that could not be read or set, with what the operator can do. */
export class KernelFileError extends Error {
  override readonly name = "KernelFileError";
  /** The errno name: `EROFS`. */
  readonly code: string;

  /** `action`: completes the sentence "Cannot …". */
  constructor(action: string, cause: unknown, advice: (code: string) => string = () => "") {
    const code = codeOf(cause);
    const words = advice(code);
    super(`Cannot ${action}: ${code}${words === "" ? "" : ` (${words})`}`, { cause });
    this.code = code;
  }
}

/** The trimmed text; undefined where there is no such file. Throws KernelFileError. */
export function readKernelFile(file: string, action: string): string | undefined {
  try {
    return readFileSync(file, "utf8").trim();
  } catch (error) {
    if (codeOf(error) === "ENOENT") return undefined;
    throw new KernelFileError(action, error);
  }
}

/** Makes no file. Throws KernelFileError. */
export function writeKernelFile(
  file: string,
  value: string,
  action: string,
  advice: (code: string) => string,
): void {
  try {
    writeFileSync(file, value, { flag: "r+" });
  } catch (error) {
    throw new KernelFileError(action, error, advice);
  }
}

function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : errorText(error);
}

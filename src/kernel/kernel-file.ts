/** Files in /proc and /sys that contain one value. */
import { readFileSync, writeFileSync } from "node:fs";
import { errorText } from "../base/error-text.ts";

/** A failure to read or write a value, with advice for the operator. */
export class KernelFileError extends Error {
  override readonly name = "KernelFileError";
  /** The errno name, such as `EROFS`. */
  readonly code: string;

  /** `action` completes the sentence "Cannot …". */
  constructor(action: string, cause: unknown, advice: (code: string) => string = () => "") {
    const code = codeOf(cause);
    const words = advice(code);
    super(`Cannot ${action}: ${code}${words === "" ? "" : ` (${words})`}`, { cause });
    this.code = code;
  }
}

/** The trimmed text; undefined if the file does not exist. Throws KernelFileError. */
export function readKernelFile(file: string, action: string): string | undefined {
  try {
    return readFileSync(file, "utf8").trim();
  } catch (error) {
    if (codeOf(error) === "ENOENT") return undefined;
    throw new KernelFileError(action, error);
  }
}

/** Never creates the file. Throws KernelFileError. */
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

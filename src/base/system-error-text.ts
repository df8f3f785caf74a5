import { errorText } from "./error-text.ts";

/** Formats a file system error without the system call and the path: `ENOENT: no such file or directory`. Pure. */
export function systemErrorText(error: unknown): string {
  const text = errorText(error);
  return /^E[A-Z0-9]+: [^,]+/.exec(text)?.[0] ?? text;
}

/** Returns the errno name of a system error, or `undefined` for other errors. Pure. */
export function systemErrorCode(error: unknown): string | undefined {
  if (!(error instanceof Error) || !("code" in error)) return undefined;
  return typeof error.code === "string" ? error.code : undefined;
}

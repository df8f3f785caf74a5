import { errorText } from "./error-text.ts";

/** `ENOENT: no such file or directory`: a file system error without the call and the path. Pure. */
export function systemErrorText(error: unknown): string {
  const text = errorText(error);
  return /^E[A-Z0-9]+: [^,]+/.exec(text)?.[0] ?? text;
}

/** The errno name of a system error; `undefined` for any other. Pure. */
export function systemErrorCode(error: unknown): string | undefined {
  if (!(error instanceof Error) || !("code" in error)) return undefined;
  return typeof error.code === "string" ? error.code : undefined;
}

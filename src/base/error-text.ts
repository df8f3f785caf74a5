/** Formats any thrown value as one line of text. */
export function errorText(error: unknown): string {
  if (error instanceof Error) return error.message.replaceAll(/\s*\n\s*/g, "; ");
  return String(error);
}

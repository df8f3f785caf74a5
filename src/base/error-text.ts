/** One line of text for anything that was thrown. */
export function errorText(error: unknown): string {
  if (error instanceof Error) return error.message.replaceAll(/\s*\n\s*/g, "; ");
  return String(error);
}

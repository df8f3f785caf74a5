/** Returns the result of `read`, or undefined if it throws. For files in /proc, which may be missing or disappear. */
export function attempt<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

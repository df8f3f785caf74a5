/**
 * Returns the result of `read`, or undefined if it throws. Callers use this for /proc files, which may disappear.
 */
export function attempt<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

/** What `read` gives; undefined where it throws: files of /proc come and go, and not every system has all of them. */
export function attempt<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

/** What a command wrote must arrive before its process ends. */

/** Resolves when all that was written has left, or when nobody reads it any more. */
export function flushed(stream: Pick<NodeJS.WriteStream, "write">): Promise<void> {
  // Into a pipe that is full the rest is written later: process.exit would lose it. An error counts as an end.
  return new Promise((resolve) => {
    stream.write("", () => resolve());
  });
}

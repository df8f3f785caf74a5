/** Resolves when all output is written, or when the reader has closed the stream. */
export function flushed(stream: Pick<NodeJS.WriteStream, "write">): Promise<void> {
  // Output to a full pipe is buffered, and process.exit would lose it. The callback runs after an error too.
  return new Promise((resolve) => {
    stream.write("", () => resolve());
  });
}

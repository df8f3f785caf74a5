/** A reporter of node:test beside the usual one: how the process of a test file ended, where that is all there is to say. */
import type { TestEvent } from "node:test/reporters";

interface ProcessEnd {
  readonly exitCode?: number | null;
  readonly signal?: string | null;
}

export default async function* reportProcessEnds(
  events: AsyncIterable<TestEvent>,
): AsyncGenerator<string> {
  for await (const event of events) {
    if (event.type !== "test:fail") continue;
    const { exitCode, signal } = event.data.details.error as ProcessEnd;
    if (exitCode === undefined && signal === undefined) continue;
    yield `${event.data.name}: its process ended with exit code ${exitCode}, signal ${signal}\n`;
  }
}

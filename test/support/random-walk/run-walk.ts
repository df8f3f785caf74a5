import type { Walk } from "./walk-step.ts";
import { Walker, type WalkNode } from "./walker.ts";

/** Runs the whole walk. An error names the steps up to the failure. */
export async function runWalk({ steps }: Walk, node: WalkNode): Promise<void> {
  const walker = new Walker(node);
  try {
    await walker.begin();
    for (const step of steps) {
      await walker.take(step);
      await node.noteStep?.();
    }
    await walker.end();
    await node.noteStep?.();
  } catch (error) {
    const what = error instanceof Error ? error.message : String(error);
    throw new Error(`${what}\nafter\n${walker.history}`, { cause: error });
  } finally {
    if (node.isRunning) await node.stop();
  }
}

import { errorText } from "../base/error-text.ts";
import { type Check, checkGroups, cleanUp } from "./checks/all-checks.ts";
import { type NamedOutcome, notApplicable, type Outcome } from "./outcome.ts";
import { prepare, type RunContext, removeAll } from "./prepare.ts";
import type { Scene } from "./scene.ts";

/**
 * Runs all checks, then removes everything, even if checks failed. Rejects if the cluster cannot be tested, if the run
 * is interrupted, or if something cannot be removed.
 */
export async function runChecks(context: RunContext): Promise<readonly NamedOutcome[]> {
  // Removal is never interrupted.
  const removal = { ...context, signal: AbortSignal.any([]) };
  try {
    const scene = await prepare(context);
    const outcomes: NamedOutcome[] = [];
    for (const group of checkGroups) {
      const found = group.map((check) => outcomeOf(check, scene, context));
      outcomes.push(...(await Promise.all(found)));
      context.signal.throwIfAborted();
    }
    context.progress("Removing everything");
    await removeAll(removal);
    return [...outcomes, await outcomeOf(cleanUp, scene, context)];
  } catch (error) {
    await removeAll(removal).catch((removing: unknown) => {
      throw new Error(
        `${errorText(error)}; removing the test's objects also failed: ${errorText(removing)}`,
        { cause: error },
      );
    });
    throw error;
  }
}

async function outcomeOf(
  { name, run }: Check,
  scene: Scene,
  { options, progress }: Pick<RunContext, "options" | "progress">,
): Promise<NamedOutcome> {
  const outcome = options.skipped.has(name)
    ? notApplicable("skipped by --skip")
    : await run(scene).catch(failure);
  progress(`${name}: ${outcome.result}`);
  return { check: name, ...outcome };
}

/** The outcome if a check throws. */
function failure(error: unknown): Outcome {
  return { result: "failed", detail: errorText(error) };
}

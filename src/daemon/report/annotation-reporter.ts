import type { ServiceName } from "../../api/objects.ts";
import { escapeUnprintable } from "../../base/printable.ts";
import { type AnnotationProblem, annotationReasons } from "../../model/tuning.ts";
import { annotationEvent } from "./events.ts";
import type { ReporterParts } from "./loop-reporter.ts";

/** Annotations that do not count: a line and an Event once for each, a gauge while they are there. */
export class AnnotationReporter {
  readonly #parts: ReporterParts;
  #reported = new Set<string>();

  constructor(parts: ReporterParts) {
    this.#parts = parts;
  }

  report(problems: ReadonlyMap<ServiceName, readonly AnnotationProblem[]>): void {
    if (problems.size === 0 && this.#reported.size === 0) return;
    const all = [...problems].flatMap(([service, list]) =>
      list.map((problem) => ({ service, problem: printable(problem) })),
    );
    const { metrics, log, events, nodeName } = this.#parts;
    for (const reason of annotationReasons) {
      const count = all.filter(({ problem }) => problem.reason === reason).length;
      metrics.ignoredAnnotations.set({ reason }, count);
    }
    const present = new Set<string>();
    for (const { service, problem } of all) {
      const key = [service, problem.annotation, problem.reason, problem.value].join(" ");
      present.add(key);
      if (this.#reported.has(key)) continue;
      log.warn("Ignoring annotation", { service, ...problem });
      events.record(annotationEvent(nodeName, service, problem));
    }
    this.#reported = present;
  }
}

const longestPrinted = 80;

function printable(problem: AnnotationProblem): AnnotationProblem {
  const [annotation, value] = [problem.annotation, problem.value].map((text) =>
    escapeUnprintable(text.length > longestPrinted ? `${text.slice(0, longestPrinted)}…` : text),
  );
  return { ...problem, annotation: annotation ?? "", value: value ?? "" };
}

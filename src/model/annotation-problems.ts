import type { ServiceName, ServiceRecord } from "../api/objects.ts";
import { none } from "../base/none.ts";
import { readTuning } from "./annotations.ts";
import type { AnnotationProblem } from "./tuning.ts";

/** Ignored annotations by Service. Only Services with problems have an entry. */
export class AnnotationProblems extends Map<ServiceName, readonly AnnotationProblem[]> {
  /** Replaces a Service's problems. */
  note(service: ServiceName, problems: readonly AnnotationProblem[]): void {
    if (problems.length > 0) this.set(service, problems);
    else this.delete(service);
  }

  /** Replaces a Service's problems in a mode without tuning. `service` is undefined if it was deleted. */
  noteUntuned(name: ServiceName, service: ServiceRecord | undefined): void {
    const read = service && readTuning(service, { scheduler: "rr" }, undefined);
    this.note(name, read?.problems ?? none);
  }
}

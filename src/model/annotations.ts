/** From a Service's annotations to its tuning. Pure. */
import type { ServiceRecord } from "../api/objects.ts";
import { none } from "../base/none.ts";
import { isFlagOf, isSchedulerName, parseSchedulerFlags } from "../base/scheduler.ts";
import type { AnnotationProblem, Tuning } from "./tuning.ts";

const prefix = "kube-ipvs.io/";
const schedulerName = `${prefix}scheduler`;
const flagsName = `${prefix}scheduler-flags`;

/** Other names of ours; ours count first. */
const aliases: Readonly<Record<string, string>> = {
  "kube-router.io/service.scheduler": schedulerName,
};

export interface ServiceTuning {
  readonly tuning: Tuning;
  /** Annotations that do not count; the default counts in their place. */
  readonly problems: readonly AnnotationProblem[];
}

interface AnnotationReader {
  /** Undefined: the text is no value. */
  readonly read: (text: string) => Partial<Tuning> | undefined;
  readonly rule: string;
}

const readers: Readonly<Record<string, AnnotationReader>> = {
  [schedulerName]: {
    read: (text) => (isSchedulerName(text) ? { scheduler: text } : undefined),
    rule: "must be the name of an IPVS scheduler, such as wrr",
  },
  [flagsName]: {
    read: (text) => {
      const schedulerFlags = parseSchedulerFlags(text);
      return schedulerFlags && { schedulerFlags };
    },
    rule: "must be none, or a list of sh-port, sh-fallback, mh-port and mh-fallback",
  },
};

/** The scheduler that a Service asks for; undefined: it leaves that to the configuration. */
export function requestedScheduler({ annotations }: Annotated): string | undefined {
  if (annotations === undefined) return undefined;
  const given = givenAnnotations(annotations).find(({ meaning }) => meaning === schedulerName);
  return given === undefined ? undefined : readers[schedulerName]?.read(given.value)?.scheduler;
}

type Annotated = Pick<ServiceRecord, "annotations">;

/** Reads the annotations of a Service. `missingSchedulers`: those that the kernel is known not to have. */
export function readTuning(
  service: Annotated & Pick<ServiceRecord, "ports">,
  defaults: Tuning,
  missingSchedulers: ReadonlySet<string>,
): ServiceTuning {
  if (service.annotations === undefined) return { tuning: defaults, problems: none };
  const problems: AnnotationProblem[] = [];
  const given = givenAnnotations(service.annotations);
  let tuning = defaults;
  for (const { name: annotation, meaning, value } of given) {
    const reader = readers[meaning];
    const problem = { annotation, value };
    if (reader === undefined) {
      problems.push({ ...problem, reason: "unknown-annotation", message: unknownMessage });
      continue;
    }
    const part = reader.read(value.trim());
    if (part === undefined) {
      problems.push({ ...problem, reason: "invalid-annotation", message: reader.rule });
    } else if (part.scheduler !== undefined && missingSchedulers.has(part.scheduler)) {
      const message = `the kernel has no scheduler ${part.scheduler}: modprobe ip_vs_${part.scheduler} on the node`;
      problems.push({ ...problem, reason: "scheduler-unavailable", message });
    } else tuning = { ...tuning, ...part };
  }
  problems.push(...withoutEffect(given, tuning));
  return { tuning, problems };
}

const unknownMessage = `kube-ipvs knows ${Object.keys(readers)
  .map((name) => name.slice(prefix.length))
  .join(", ")} under ${prefix}`;

interface GivenAnnotation {
  /** As the Service writes it. */
  readonly name: string;
  /** The name that is ours. */
  readonly meaning: string;
  readonly value: string;
}

/** Each setting once, in the order of their names. */
function givenAnnotations(
  annotations: Readonly<Record<string, string>>,
): readonly GivenAnnotation[] {
  return Object.entries(annotations)
    .map(([name, value]) => ({ name, meaning: aliases[name] ?? name, value }))
    .filter(({ name, meaning }) => name === meaning || !Object.hasOwn(annotations, meaning))
    .sort((one, other) => (one.name < other.name ? -1 : 1));
}

function withoutEffect(
  given: readonly GivenAnnotation[],
  tuning: Tuning,
): readonly AnnotationProblem[] {
  return given.flatMap(({ name: annotation, meaning, value }): readonly AnnotationProblem[] => {
    const message = whyWithoutEffect(meaning, tuning);
    if (message === undefined) return [];
    return [{ annotation, value, reason: "annotation-without-effect", message }];
  });
}

function whyWithoutEffect(meaning: string, tuning: Tuning): string | undefined {
  const { scheduler, schedulerFlags = [] } = tuning;
  if (meaning !== flagsName) return undefined;
  const isFitting = schedulerFlags.every((flag) => isFlagOf(scheduler, flag));
  return isFitting ? undefined : `the scheduler is ${scheduler}, which has no such flag`;
}

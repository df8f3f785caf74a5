/** Asks endpoints for their weights, and keeps their answers for planning. */
import type { Clock } from "../../base/clock.ts";
import type { IpAddress, IpFamily } from "../../base/ip.ts";
import type { Logger } from "../../base/log.ts";
import { type NextRun, Periodic } from "../../base/periodic.ts";
import { type ServiceAddress, type ServiceName, serviceAddress } from "../../base/service-name.ts";
import type { WeightAnswer } from "../../model/tuning.ts";
import type { ServicePlan } from "../../plan/planner.ts";
import type { WeightRequest } from "../../plan/weight-requests.ts";
import type { NumberRecord } from "../process/number-record.ts";
import type { AskedWeight, AskWeight } from "./ask-weight.ts";

/** Requests for all Services are limited to 100 per second, regardless of the number of endpoints. */
const tickMs = 100;
const requestsPerTick = 10;
const shortestPeriodMs = 1_000;
/** Changes of a Service's weights that occur within this time are planned together. */
const gatherMs = 500;
/** An endpoint's last answer remains valid until this many requests in a row have failed. */
const failuresUntilUnknown = 3;

export interface WeightAnswersContext {
  readonly clock: Clock;
  readonly log: Logger;
  readonly ask: AskWeight;
  /** If undefined, a restart loses all answers. */
  readonly record?: NumberRecord;
  /** If true, no endpoint is asked, and only recorded answers apply. */
  readonly isReadOnly: boolean;
  /** Whether all Services have been planned since startup. Until then, the record keeps the answers of earlier runs. */
  readonly isPlanned: () => boolean;
  /** The period between two requests to an endpoint. May change. */
  readonly periodMs: () => number;
  /** Called when the weights of these Services must be planned again. */
  readonly onChange: (services: readonly ServiceName[]) => void;
  /** Called with the number of endpoints that have answered and the number of those that have not. */
  readonly onCounts: (answered: number, unanswered: number) => void;
  /** From 0 to less than 1. Spreads the requests of different nodes over the period. */
  readonly random: () => number;
}

interface Target {
  readonly service: ServiceName;
  readonly request: WeightRequest;
  answer: WeightAnswer;
  failures: number;
  /** When the endpoint was last asked. For a new target, a time within the period before now. */
  askedMs: number;
}

interface AskedService {
  /** Keys of the Service's targets, by family. */
  readonly keys: Map<IpFamily, readonly ServiceAddress[]>;
  /** When the Service's weights were last planned because of answers. */
  changedMs: number;
}

type AskedPlan = Pick<ServicePlan, "service" | "family" | "servicePorts" | "weightRequests">;

export class WeightAnswers {
  readonly #context: WeightAnswersContext;
  readonly #targets = new Map<ServiceAddress, Target>();
  readonly #services = new Map<ServiceName, AskedService>();
  /**
   * The targets of each namespace, in the order of their next requests. Namespaces take turns, so that a namespace with
   * many endpoints does not delay the other namespaces.
   */
  readonly #queues = new Map<string, Map<ServiceAddress, Target>>();
  /** Services with changed weights that are not planned yet, and since when. */
  readonly #changed = new Map<ServiceName, number>();
  /** Weights that an earlier run recorded, for endpoints that this run has not planned yet. */
  readonly #recalled: Map<string, number>;
  readonly #offset: number;
  /** Whether the record and the counts are outdated because targets were added or removed. */
  #isOutdated = false;
  readonly #task: Periodic;

  constructor(context: WeightAnswersContext) {
    this.#context = context;
    this.#offset = context.random();
    this.#recalled = new Map(context.record?.recalled);
    const task = { name: "requests for weights", intervalMs: tickMs, maxShare: 0.5 };
    this.#task = new Periodic({ ...task, run: async () => this.#tick() }, context);
  }

  /**
   * The answer to use in planning. Until an endpoint is first asked, this is the answer that an earlier run recorded.
   */
  answerOf(service: ServiceName, address: IpAddress): WeightAnswer | undefined {
    const key = serviceAddress(service, address);
    return this.#targets.get(key)?.answer ?? this.#recall(key);
  }

  /** Whether an endpoint's weight is its own answer. Undefined if the endpoint is not asked. */
  stateOf(service: ServiceName, address: IpAddress): "answered" | "no-answer" | undefined {
    const target = this.#targets.get(serviceAddress(service, address));
    if (target === undefined) return undefined;
    return target.answer.weight === undefined ? "no-answer" : "answered";
  }

  /** Records which endpoints of a planned Service to ask for their weights. */
  note({ service, family, servicePorts, weightRequests }: AskedPlan): void {
    const known = this.#services.get(service);
    if (known === undefined && weightRequests.length === 0 && this.#recalled.size === 0) return;
    const { keys } = known ?? { keys: new Map<IpFamily, readonly ServiceAddress[]>() };
    const all = servicePorts.flatMap(({ virtualServers }) => virtualServers);
    const used = new Set(
      all.flatMap((one) => one.realServers.map(({ address }) => serviceAddress(service, address))),
    );
    const before = keys.get(family) ?? [...used].filter((key) => this.#recalled.has(key));
    const now = weightRequests.map(({ address }) => serviceAddress(service, address));
    const present = new Set(now);
    const removed = before.filter((key) => !present.has(key));
    for (const key of removed) this.#remove(key);
    // If the Service still uses endpoints whose answers no longer apply, plan its weights again.
    if (removed.some((key) => used.has(key))) this.#noteChange(service);
    for (const request of weightRequests) this.#add(service, request);
    if (now.length > 0) keys.set(family, now);
    else keys.delete(family);
    if (keys.size === 0) this.#services.delete(service);
    else if (known === undefined) {
      this.#services.set(service, { keys, changedMs: Number.NEGATIVE_INFINITY });
    }
    if (!this.#context.isReadOnly && !this.#isIdle) this.#task.start();
  }

  stop(): void {
    this.#task.stop();
  }

  #add(service: ServiceName, request: WeightRequest): void {
    const key = serviceAddress(service, request.address);
    const known = this.#targets.get(key);
    if (known?.request.port === request.port && known.request.path === request.path) return;
    const namespace = namespaceOf(service);
    const queue = this.#queues.get(namespace) ?? new Map<ServiceAddress, Target>();
    const target = {
      ...{ service, request },
      answer: known?.answer ?? this.#recall(key) ?? {},
      failures: 0,
      askedMs: this.#context.clock.monotonicMs() + (this.#offset - 1) * this.#periodMs,
    };
    this.#isOutdated = true;
    this.#recalled.delete(key);
    this.#targets.set(key, target);
    queue.delete(key);
    this.#queues.set(namespace, queue.set(key, target));
  }

  #remove(key: ServiceAddress): void {
    const target = this.#targets.get(key);
    this.#recalled.delete(key);
    if (target === undefined) return;
    const namespace = namespaceOf(target.service);
    const queue = this.#queues.get(namespace);
    queue?.delete(key);
    if (queue?.size === 0) this.#queues.delete(namespace);
    this.#targets.delete(key);
    this.#isOutdated = true;
  }

  #recall(key: ServiceAddress): WeightAnswer | undefined {
    const weight = this.#recalled.get(key);
    return weight === undefined ? undefined : { weight };
  }

  get #periodMs(): number {
    return Math.max(shortestPeriodMs, this.#context.periodMs());
  }

  get #isIdle(): boolean {
    return this.#targets.size === 0 && this.#changed.size === 0 && !this.#isOutdated;
  }

  #tick(): NextRun {
    this.#startDue();
    this.#reportChanges();
    return this.#isIdle ? "stop" : "paced";
  }

  #startDue(): void {
    const nowMs = this.#context.clock.monotonicMs();
    let left = requestsPerTick;
    for (let found = true; found && left > 0; ) {
      found = false;
      for (const [namespace, queue] of [...this.#queues]) {
        const [next] = queue;
        if (next === undefined || next[1].askedMs + this.#periodMs > nowMs) continue;
        const [key, target] = next;
        target.askedMs = nowMs;
        queue.delete(key);
        this.#queues.delete(namespace);
        this.#queues.set(namespace, queue.set(key, target));
        void this.#context.ask(target.request).then((asked) => this.#note(key, target, asked));
        found = true;
        left -= 1;
        if (left === 0) return;
      }
    }
  }

  #note(key: ServiceAddress, target: Target, asked: AskedWeight): void {
    if (this.#targets.get(key) !== target) return;
    const before = target.answer;
    if ("weight" in asked) {
      target.failures = 0;
      target.answer = asked;
    } else {
      target.failures += 1;
      if (target.failures >= failuresUntilUnknown) target.answer = asked;
    }
    const { weight, problem } = target.answer;
    if (before.weight === weight && before.problem === problem) return;
    this.#noteChange(target.service);
  }

  #noteChange(service: ServiceName): void {
    if (this.#changed.has(service)) return;
    this.#changed.set(service, this.#context.clock.monotonicMs());
  }

  #reportChanges(): void {
    const nowMs = this.#context.clock.monotonicMs();
    const isDue = ([name, notedMs]: readonly [ServiceName, number]): boolean => {
      const plannedMs = this.#services.get(name)?.changedMs ?? Number.NEGATIVE_INFINITY;
      return nowMs >= Math.max(notedMs + gatherMs, plannedMs + this.#periodMs);
    };
    const due = [...this.#changed].filter(isDue).map(([name]) => name);
    for (const name of due) {
      this.#changed.delete(name);
      const service = this.#services.get(name);
      if (service !== undefined) service.changedMs = nowMs;
    }
    if (due.length === 0 && !this.#isOutdated) return;
    this.#isOutdated = false;
    const { record, onChange, onCounts, isPlanned } = this.#context;
    record?.keep(() => [...(isPlanned() ? [] : this.#recalled), ...this.#weights()]);
    const answered = this.#weights().length;
    onCounts(answered, this.#targets.size - answered);
    if (due.length > 0) onChange(due);
  }

  #weights(): readonly (readonly [ServiceAddress, number])[] {
    return [...this.#targets].flatMap(
      ([
        key,
        {
          answer: { weight },
        },
      ]) => (weight === undefined ? [] : [[key, weight] as const]),
    );
  }
}

function namespaceOf(service: ServiceName): string {
  return service.slice(0, service.indexOf("/"));
}

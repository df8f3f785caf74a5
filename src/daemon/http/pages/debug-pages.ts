import { getHeapSpaceStatistics, getHeapStatistics } from "node:v8";
import { type Clock, sleep } from "../../../base/clock.ts";
import type { HttpAnswer, HttpRequest } from "../http-listener.ts";
import { jsonAnswer, notFound, textAnswer } from "./answers.ts";

export interface DebugDependencies {
  readonly clock: Clock;
  /** Overrides the verbosity that `-v` set. */
  readonly setVerbosity: (level: number) => void;
}

const defaultSeconds = 10;
/** Maximum profile duration in seconds. Must be less than 30 s, after which an idle connection is closed. */
const maxSeconds = 25;

const index = `/debug/pprof/

profile?seconds=10  CPU profile of up to ${maxSeconds} s; save as x.cpuprofile and open it in Chrome's developer tools
heap                memory statistics

/debug/flags/v      PUT a number: the new verbosity
`;

/**
 * Profiling pages, served only if enableProfiling is set. They have the same paths as kube-proxy's, but the profiles
 * are in Node.js's formats. Only local requests are accepted, because profiling uses CPU time and reveals internals.
 */
export class DebugPages {
  readonly #dependencies: DebugDependencies;
  #isProfiling = false;

  constructor(dependencies: DebugDependencies) {
    this.#dependencies = dependencies;
  }

  async answer(request: HttpRequest): Promise<HttpAnswer> {
    if (!request.isFromThisNode)
      return textAnswer("requests are accepted only from this node\n", 403);
    switch (request.path) {
      case "/debug/pprof":
        return { ...textAnswer("", 302), headers: { Location: "/debug/pprof/" } };
      case "/debug/pprof/":
      case "/debug/flags":
        return textAnswer(index);
      case "/debug/pprof/heap":
        return jsonAnswer(heapFigures());
      case "/debug/pprof/profile":
        return await this.#profile(request.query);
      case "/debug/flags/v":
        return await this.#setVerbosity(request);
      default:
        return notFound;
    }
  }

  async #profile(query: URLSearchParams): Promise<HttpAnswer> {
    const seconds = Number(query.get("seconds") ?? defaultSeconds);
    if (!(seconds > 0 && seconds <= maxSeconds)) {
      return textAnswer(`seconds must be more than 0 and at most ${maxSeconds}\n`, 400);
    }
    if (this.#isProfiling) return textAnswer("a profile is already being taken\n", 409);
    this.#isProfiling = true;
    // Loaded on demand because most daemons are never profiled.
    const { Session } = await import("node:inspector/promises");
    const session = new Session();
    try {
      session.connect();
      await session.post("Profiler.enable");
      await session.post("Profiler.start");
      await sleep(this.#dependencies.clock, seconds * 1000);
      const { profile } = await session.post("Profiler.stop");
      return jsonAnswer(profile);
    } finally {
      session.disconnect();
      this.#isProfiling = false;
    }
  }

  /** Uses the messages and status codes of Kubernetes' flag handler. */
  async #setVerbosity({ method, readBody }: HttpRequest): Promise<HttpAnswer> {
    if (method !== "PUT") return textAnswer("unrecognized http method\n", 406);
    const text = (await readBody()).trim();
    if (!/^\d{1,9}$/.test(text))
      return textAnswer(`failed to set v to ${JSON.stringify(text)}\n`, 400);
    this.#dependencies.setVerbosity(Number(text));
    return textAnswer(`successfully set klog.logging.verbosity to ${text}\n`);
  }
}

function heapFigures(): object {
  return {
    process: process.memoryUsage(),
    heap: getHeapStatistics(),
    spaces: getHeapSpaceStatistics(),
  };
}

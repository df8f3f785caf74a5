/**
 * Sends requests over separate connections, and prints one line of JSON: the number of answers by pod, the sources that
 * pods saw, and failures. `node traffic.ts URL COUNT [PER-SECOND]`; SIGTERM ends it early.
 */
import { get } from "node:http";

export interface TrafficReport {
  readonly requests: number;
  readonly answersByPod: Readonly<Record<string, number>>;
  readonly sources: readonly string[];
  readonly failures: readonly string[];
  readonly seconds: number;
}

interface Answer {
  readonly name: string;
  readonly source: string;
}

const requestTimeoutMs = 5_000;
/** Number of concurrent requests if no rate is given. It is high if the demo's test has removed a kernel object. */
const parallel = process.env["DEMO_SABOTAGE"] === undefined ? 8 : 100;

function ask(url: string): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const request = get(url, { agent: false, timeout: requestTimeoutMs }, (response) => {
      let body = "";
      response.setEncoding("utf8");
      response.on("data", (chunk: string) => {
        body += chunk;
      });
      response.on("end", () => resolve(JSON.parse(body) as Answer));
      response.on("error", reject);
    });
    request.on("timeout", () => request.destroy(new Error("no answer within 5 s")));
    request.on("error", reject);
  });
}

class Traffic {
  readonly #url: string;
  readonly #answersByPod: Record<string, number> = {};
  readonly #sources = new Set<string>();
  readonly #failures: string[] = [];
  readonly #beganMs = performance.now();
  #requests = 0;

  constructor(url: string) {
    this.#url = url;
  }

  async request(): Promise<void> {
    this.#requests += 1;
    try {
      const { name, source } = await ask(this.#url);
      this.#answersByPod[name] = (this.#answersByPod[name] ?? 0) + 1;
      this.#sources.add(source);
    } catch (error) {
      this.#failures.push(error instanceof Error ? error.message : String(error));
    }
  }

  report(): TrafficReport {
    return {
      requests: this.#requests,
      answersByPod: this.#answersByPod,
      sources: [...this.#sources].sort(),
      failures: this.#failures,
      seconds: (performance.now() - this.#beganMs) / 1000,
    };
  }
}

async function main(): Promise<void> {
  const [url = "", countText = "1", rateText] = process.argv.slice(2);
  const traffic = new Traffic(url);
  let left = Number(countText);
  process.on("SIGTERM", () => {
    left = 0;
  });
  if (rateText === undefined) {
    const lane = async (): Promise<void> => {
      while (left-- > 0) await traffic.request();
    };
    await Promise.all(Array.from({ length: parallel }, lane));
  } else {
    await atRate(traffic, Number(rateText), () => left-- > 0);
  }
  console.log(JSON.stringify(traffic.report()));
}

/** Starts requests at a steady rate, no matter how long answers take. */
async function atRate(traffic: Traffic, perSecond: number, mayGoOn: () => boolean): Promise<void> {
  const pending: Promise<void>[] = [];
  const beganMs = performance.now();
  for (let started = 0; mayGoOn(); started++) {
    pending.push(traffic.request());
    const dueMs = beganMs + ((started + 1) * 1000) / perSecond;
    const waitMs = Math.max(0, dueMs - performance.now());
    await new Promise((resolve) => setTimeout(resolve, waitMs));
  }
  await Promise.all(pending);
}

await main();

/** A real Prometheus that scrapes one address on loopback. */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { freePort } from "./free-port.ts";

/** A series from the HTTP API: its labels and latest value. */
export interface Sample {
  readonly metric: Readonly<Record<string, string>>;
  readonly value: readonly [timeSeconds: number, value: string];
}

export interface MetricMetadata {
  readonly metric: string;
  readonly type: string;
  readonly help: string;
}

const deadlineMs = 60_000;
const pauseMs = 250;

export class Prometheus {
  readonly #child: ChildProcess;
  readonly #folder: string;
  readonly #url: string;
  #output = "";

  private constructor(folder: string, port: number) {
    this.#folder = folder;
    this.#url = `http://127.0.0.1:${port}`;
    this.#child = spawn("prometheus", [
      `--config.file=${join(folder, "prometheus.yml")}`,
      `--storage.tsdb.path=${join(folder, "data")}`,
      `--web.listen-address=127.0.0.1:${port}`,
    ]);
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      stream?.on("data", (chunk: Buffer) => {
        this.#output += chunk.toString();
      });
    }
  }

  /**
   * Scrapes `target`, such as `127.0.0.1:10249`, as job kube-proxy in cluster "lab". Resolves after the first scrape.
   */
  static async start(target: string): Promise<Prometheus> {
    const folder = mkdtempSync(join(tmpdir(), "kube-ipvs-prometheus-"));
    const config = {
      global: { scrape_interval: "500ms", scrape_timeout: "500ms" },
      scrape_configs: [
        {
          job_name: "kube-proxy",
          static_configs: [{ targets: [target], labels: { cluster: "lab" } }],
        },
      ],
    };
    writeFileSync(join(folder, "prometheus.yml"), JSON.stringify(config));
    const prometheus = new Prometheus(folder, await freePort());
    await prometheus.until(async () => ((await prometheus.#isReady()) ? [] : ["ready"]));
    await prometheus.until(async () => ((await prometheus.query("up")).length > 0 ? [] : ["up"]));
    return prometheus;
  }

  async stop(): Promise<void> {
    const ended = new Promise((resolve) => this.#child.on("close", resolve));
    this.#child.kill("SIGKILL");
    await ended;
    rmSync(this.#folder, { recursive: true });
  }

  /** The result of an instant query. */
  async query(query: string): Promise<readonly Sample[]> {
    const { result } = await this.#get<{ result: readonly Sample[] }>("query", { query });
    return result;
  }

  /** Name, type and help of all scraped metrics. */
  metadata(): Promise<readonly MetricMetadata[]> {
    return this.#get("targets/metadata", { match_target: '{job="kube-proxy"}' });
  }

  /** The labels of each series. */
  series(): Promise<readonly Readonly<Record<string, string>>[]> {
    return this.#get("series", { "match[]": '{job="kube-proxy"}' });
  }

  /** Waits until nothing is missing. On failure, reports the missing names and Prometheus's output. */
  async until(missing: () => Promise<readonly string[]>): Promise<void> {
    const lastMs = performance.now() + deadlineMs;
    for (let names = await missing(); names.length > 0; names = await missing()) {
      if (performance.now() > lastMs) {
        throw new Error(`Missing: ${names.join(", ")}; Prometheus says:\n${this.#output}`);
      }
      await pause(pauseMs);
    }
  }

  async #isReady(): Promise<boolean> {
    if (this.#child.exitCode !== null) throw new Error(`Prometheus exited:\n${this.#output}`);
    return await fetch(`${this.#url}/-/ready`).then(
      ({ ok }) => ok,
      () => false,
    );
  }

  async #get<T>(path: string, query: Readonly<Record<string, string>>): Promise<T> {
    const response = await fetch(`${this.#url}/api/v1/${path}?${new URLSearchParams(query)}`);
    const answer = (await response.json()) as { data: T; error?: string };
    if (!response.ok) throw new Error(`${JSON.stringify(query)}: ${answer.error}`);
    return answer.data;
  }
}

/** Returns the problems that `promtool check metrics` reports, one per line. */
export function lint(exposition: string): readonly string[] {
  try {
    execFileSync("promtool", ["check", "metrics"], { input: exposition, stdio: "pipe" });
    return [];
  } catch (error) {
    const { stderr } = error as { stderr: Buffer };
    return stderr.toString().trimEnd().split("\n");
  }
}

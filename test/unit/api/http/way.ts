import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { openConnection } from "../../../../src/api/cluster/open-connection.ts";
import type { RequestRate } from "../../../../src/api/cluster/request-pace.ts";
import type { ApiConnection, ApiResponse } from "../../../../src/api/connection.ts";
import { FakeClock } from "../../../support/fake-clock.ts";

const certificates = join(import.meta.dirname, "certificates");

/** Reads a test certificate file; see make.sh there. */
export const certificate = (name: string): Promise<Buffer> => readFile(join(certificates, name));

/** A kubeconfig in its own folder, and its connection's clock. */
export class Way {
  readonly clock: FakeClock = new FakeClock();
  readonly folder: string;
  /** The process's environment variables. */
  readonly environment: Record<string, string> = {};
  rate: RequestRate = { qps: -1, burst: 1 };
  readonly #test: TestContext;

  constructor(test: TestContext, folder: string) {
    this.#test = test;
    this.folder = folder;
  }

  static async make(test: TestContext): Promise<Way> {
    const folder = await mkdtemp(join(tmpdir(), "way-"));
    test.after(() => rm(folder, { recursive: true }));
    const way = new Way(test, folder);
    await way.write("ca.crt", await certificate("ca.crt"));
    return way;
  }

  write(name: string, content: string | Buffer): Promise<void> {
    return writeFile(join(this.folder, name), content);
  }

  /** Opens a connection. `master` is the address on the command line. */
  async open(cluster: object, user: object = {}, master = ""): Promise<ApiConnection> {
    const kubeconfig = {
      clusters: [{ name: "c", cluster }],
      users: [{ name: "u", user }],
      contexts: [{ name: "x", context: { cluster: "c", user: "u" } }],
      "current-context": "x",
    };
    await this.write("config", JSON.stringify(kubeconfig));
    const connection = await openConnection(
      { clock: this.clock, environment: this.environment, rate: this.rate },
      { kubeconfig: join(this.folder, "config"), master, userAgent: "kube-ipvs/test" },
    );
    this.#test.after(() => connection.close());
    return connection;
  }
}

/** Lists nodes and reads the whole answer. */
export async function listNodes(
  connection: ApiConnection,
): Promise<{ readonly status: number; readonly text: string }> {
  const abort = new AbortController();
  const response = await connection.request("/api/v1/nodes", {}, abort.signal);
  return { status: response.status, text: await textOf(response) };
}

async function textOf({ body }: ApiResponse): Promise<string> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of body) chunks.push(chunk);
  return Buffer.concat(chunks).toString("utf8");
}

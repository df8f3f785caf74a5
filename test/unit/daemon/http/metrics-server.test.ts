/** Tests every page of the metrics server. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { gunzipSync } from "node:zlib";
import type { HttpAnswer, HttpRequest } from "../../../../src/daemon/http/http-listener.ts";
import { metricsResponder } from "../../../../src/daemon/http/metrics-server.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { httpRequest } from "../../../support/http-request.ts";

const exposition = { exposition: () => Promise.resolve("up 1\n"), contentType: "text/plain; v" };
const object = { apiVersion: "kubeproxy.config.k8s.io/v1alpha1", kind: "KubeProxyConfiguration" };
const flags = new Map([
  ["v", "2"],
  ["config", "/etc/x"],
]);

/** A server with a clock that the test controls. Returns a function that requests a path. */
function server(
  options: {
    readonly enableProfiling?: boolean;
    readonly gates?: readonly [string, boolean][];
  } = {},
): {
  clock: FakeClock;
  levels: number[];
  ask: (target: string, overrides?: Partial<HttpRequest>) => Promise<HttpAnswer>;
} {
  const clock = new FakeClock();
  const levels: number[] = [];
  const setVerbosity = (level: number): void => void levels.push(level);
  const respond = metricsResponder(
    { clock, metrics: exposition, shown: { object: () => object, flags }, setVerbosity },
    {
      mode: "ipvs",
      enableProfiling: options.enableProfiling ?? false,
      featureGates: new Map(options.gates),
    },
  );
  const ask = async (target: string, overrides?: Partial<HttpRequest>): Promise<HttpAnswer> =>
    await respond(httpRequest(target, overrides));
  return { clock, levels, ask };
}

describe("the metrics server answers", () => {
  const text = "text/plain; charset=utf-8";
  const cases: readonly (readonly [target: string, status: number, type: string, body: string])[] =
    [
      ["/metrics", 200, "text/plain; v", "up 1\n"],
      ["/proxyMode", 200, text, "ipvs"],
      ["/healthz", 200, text, "ok"],
      ["/healthz/ping", 200, text, "ok"],
      ["/healthz?verbose", 200, text, "[+]ping ok\nhealthz check passed\n"],
      ["/healthz?verbose&exclude=ping", 200, text, "[+]ping excluded: ok\nhealthz check passed\n"],
      [
        "/configz",
        200,
        "application/json",
        `${JSON.stringify({ "kubeproxy.config.k8s.io": object })}\n`,
      ],
      ["/", 404, text, "404 page not found\n"],
      ["/proxyMode/", 404, text, "404 page not found\n"],
      ["/debug/pprof/", 404, text, "404 page not found\n"],
      ["/debug/flags/v", 404, text, "404 page not found\n"],
    ];
  for (const [target, status, type, body] of cases) {
    it(target, async () => {
      const answer = await server().ask(target);
      assert.deepEqual(
        [answer.status, answer.headers["Content-Type"], answer.body],
        [status, type, body],
      );
      const sniffing = answer.headers["X-Content-Type-Options"];
      assert.equal(sniffing, target === "/metrics" ? undefined : "nosniff");
    });
  }

  it("a scraper that accepts gzip", async () => {
    const answer = await server().ask("/metrics", { acceptsGzip: true });
    assert.equal(answer.headers["Content-Encoding"], "gzip");
    assert.equal(gunzipSync(answer.body).toString(), "up 1\n");
  });

  it("the number of /healthz requests, until it is reset", async () => {
    const { ask } = server();
    await ask("/healthz");
    await ask("/healthz");
    const told = String((await ask("/metrics/slis")).body);
    assert.match(told, /^kubernetes_healthcheck\{name="ping",type="healthz"\} 1$/m);
    assert.match(
      told,
      /^kubernetes_healthchecks_total\{name="ping",type="healthz",status="success"\} 2$/m,
    );
    assert.equal((await ask("/metrics/slis", { method: "DELETE" })).body, "metrics reset\n");
    assert.doesNotMatch(
      String((await ask("/metrics/slis")).body),
      /^kubernetes_healthchecks_total\{/m,
    );
  });
});

describe("/flagz and /statusz", () => {
  const warning =
    "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.";

  it("are text for people", async () => {
    const { ask, clock } = server();
    assert.equal(
      (await ask("/flagz")).body,
      `\nkube-proxy flagz\n${warning}\n\nconfig=/etc/x\nv=2\n`,
    );
    await clock.advance((3 * 3600 + 4 * 60 + 5) * 1000);
    const lines = String((await ask("/statusz")).body).split("\n");
    assert.deepEqual(lines.slice(1, 6), [
      "kube-proxy statusz",
      warning,
      "",
      "Started: Thu Jan  1 00:00:00 UTC 2026",
      "Up: 3 hr 04 min 05 sec",
    ]);
    assert.match(lines.at(-2) ?? "", /^Paths: \/configz \/flagz \/healthz /);
  });

  const forms = [
    ["v1beta1", "application/json", undefined],
    [
      "v1alpha1",
      "application/json",
      '299 - "config.k8s.io/v1alpha1 Flagz is deprecated, use v1beta1"',
    ],
  ] as const;
  for (const [version, type, told] of forms) {
    it(`are objects of ${version} for programs`, async () => {
      const accept = `text/html, ${type};g=config.k8s.io;v=${version};as=Flagz`;
      const answer = await server().ask("/flagz", { accept });
      assert.deepEqual(JSON.parse(String(answer.body)), {
        kind: "Flagz",
        apiVersion: `config.k8s.io/${version}`,
        metadata: { name: "kube-proxy" },
        flags: { config: "/etc/x", v: "2" },
      });
      assert.equal(answer.headers["Content-Type"], type);
      assert.equal(answer.headers["Warning"], told);
    });
  }

  it("are also YAML", async () => {
    const accept = "application/yaml; v=v1beta1; g=config.k8s.io; as=Statusz";
    const { body } = await server().ask("/statusz", { accept });
    assert.match(String(body), /^startTime: "?2026-01-01T00:00:00Z"?$/m);
    assert.match(String(body), /^binaryVersion: 1\.36\.2$/m);
  });

  for (const accept of [
    "application/json",
    "image/png",
    "application/json;g=config.k8s.io;v=v1beta1;as=Statusz",
    "application/json;g=config.k8s.io;v=v2;as=Flagz",
  ]) {
    it(`do not answer to ${accept}`, async () => {
      assert.equal((await server().ask("/flagz", { accept })).status, 406);
    });
  }

  it("are disabled by their feature gates", async () => {
    const { ask } = server({
      gates: [
        ["ComponentFlagz", false],
        ["ComponentStatusz", false],
      ],
    });
    assert.equal((await ask("/flagz")).status, 404);
    assert.equal((await ask("/statusz")).status, 404);
  });
});

describe("the debug pages", () => {
  const profiling = { enableProfiling: true };

  it("are served only to requests from this node", async () => {
    const { ask } = server(profiling);
    const { status } = await ask("/debug/pprof/heap", { isFromThisNode: false });
    assert.equal(status, 403);
  });

  it("have an index", async () => {
    const { ask } = server(profiling);
    const moved = await ask("/debug/pprof");
    assert.deepEqual([moved.status, moved.headers["Location"]], [302, "/debug/pprof/"]);
    assert.match(String((await ask("/debug/pprof/")).body), /^heap +memory statistics$/m);
    assert.equal((await ask("/debug/pprof/symbol")).status, 404);
  });

  it("describe the heap", async () => {
    const { body } = await server(profiling).ask("/debug/pprof/heap");
    const { process, spaces } = JSON.parse(String(body)) as {
      process: { rss: number };
      spaces: [];
    };
    assert.ok(process.rss > 0 && spaces.length > 0);
  });

  it("record a profile of at most 25 s, one at a time", async () => {
    const { ask, clock } = server(profiling);
    assert.equal((await ask("/debug/pprof/profile?seconds=26")).status, 400);
    assert.equal((await ask("/debug/pprof/profile?seconds=x")).status, 400);
    const first = ask("/debug/pprof/profile?seconds=20");
    assert.equal((await ask("/debug/pprof/profile")).status, 409);
    while (clock.pendingTimers === 0) await new Promise((resolve) => setImmediate(resolve));
    await clock.advance(20_000);
    const profile = JSON.parse(String((await first).body)) as { nodes: readonly unknown[] };
    assert.ok(profile.nodes.length > 0);
  });

  const puts: readonly (readonly [method: string, body: string, status: number, words: string])[] =
    [
      ["PUT", "4\n", 200, "successfully set klog.logging.verbosity to 4\n"],
      ["PUT", "many", 400, 'failed to set v to "many"\n'],
      ["PUT", "-1", 400, 'failed to set v to "-1"\n'],
      ["POST", "4", 406, "unrecognized http method\n"],
    ];
  for (const [method, body, status, words] of puts) {
    it(`change the verbosity: ${method} ${JSON.stringify(body)} returns ${status}`, async () => {
      const { ask, levels } = server(profiling);
      const answer = await ask("/debug/flags/v", { method, readBody: () => Promise.resolve(body) });
      assert.deepEqual([answer.status, answer.body], [status, words]);
      assert.deepEqual(levels, status === 200 ? [4] : []);
    });
  }
});

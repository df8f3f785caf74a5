import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { request } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterEach, beforeEach, describe, it } from "node:test";
import type { TLSSocket } from "node:tls";
import type { Access, AuthorizedRequest } from "../../../../src/api/cluster/request-authorizer.ts";
import type { IpAddress } from "../../../../src/base/ip.ts";
import { authorizingResponder } from "../../../../src/daemon/http/authorizing-responder.ts";
import { HttpListener } from "../../../../src/daemon/http/http-listener.ts";
import { textAnswer } from "../../../../src/daemon/http/pages/answers.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { RecordingLogger } from "../../../support/recording-logger.ts";
import { load } from "../../config/loading.ts";
import { firstCertificate, secondCertificate, type TestCertificate } from "./test-certificates.ts";

let folder: string;
let clock: FakeClock;
let log: RecordingLogger;
let listener: HttpListener;
let asked: AuthorizedRequest[];
let access: Access;

function write({ cert, key }: TestCertificate): void {
  writeFileSync(join(folder, "tls.crt"), cert);
  writeFileSync(join(folder, "tls.key"), key);
}

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "kube-ipvs-"));
  clock = new FakeClock();
  log = new RecordingLogger();
  asked = [];
  access = "allowed";
  write(firstCertificate);
  const authorizer = {
    access: async (given: AuthorizedRequest) => {
      asked.push(given);
      return access;
    },
  };
  listener = new HttpListener(
    { clock, log },
    {
      name: "secure metrics server",
      address: { address: "127.0.0.1" as IpAddress, port: 0 },
      certificate: { certFile: join(folder, "tls.crt"), keyFile: join(folder, "tls.key") },
      isFailureFatal: false,
      respond: authorizingResponder(authorizer, ({ path }) => textAnswer(`page ${path}`)),
    },
  );
});

afterEach(async () => {
  await listener.stop();
  rmSync(folder, { recursive: true });
});

interface Page {
  readonly status: number | undefined;
  readonly body: string;
  readonly challenge: string | undefined;
  readonly issuer: string;
}

function fetchPage(authorization?: string): Promise<Page> {
  return new Promise((resolve, reject) => {
    const headers = authorization === undefined ? {} : { authorization };
    const ca = [firstCertificate.cert, secondCertificate.cert];
    request(
      { host: "127.0.0.1", port: listener.port, path: "/metrics", headers, ca, agent: false },
      async (response) => {
        const { statusCode: status, headers: received, socket } = response;
        const issuer = String((socket as TLSSocket).getPeerCertificate().subject.CN);
        const body = await text(response);
        resolve({ status, body, issuer, challenge: received["www-authenticate"] });
      },
    )
      .on("error", reject)
      .end();
  });
}

/** Waits until the listener has read its certificate again, which takes real time. */
async function nextCheck(isDone: () => boolean): Promise<void> {
  await clock.advance(60_000);
  for (let turns = 0; !isDone(); turns += 1) {
    assert.ok(turns < 1_000);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

describe("the secure metrics server", () => {
  it("uses TLS, and answers a client whose token's user is allowed to request the path", async () => {
    await listener.start();
    const page = await fetchPage("Bearer abc");
    assert.deepEqual(page, {
      status: 200,
      body: "page /metrics",
      issuer: "first",
      challenge: undefined,
    });
    assert.deepEqual(asked, [{ path: "/metrics", verb: "get", token: "abc" }]);
  });

  it("rejects a request without a bearer token, and does not ask the API server about it", async () => {
    await listener.start();
    for (const header of [undefined, "Basic YTpi", "Bearer", "Bearer a b"]) {
      const { status, body, challenge } = await fetchPage(header);
      assert.deepEqual([status, body, challenge], [401, "Unauthorized\n", "Bearer"], header);
    }
    assert.deepEqual(asked, []);
  });

  for (const [given, status] of [
    ["unknown", 401],
    ["forbidden", 403],
    ["unavailable", 503],
  ] as const) {
    it(`answers ${status} if the token is ${given}`, async () => {
      access = given;
      await listener.start();
      const page = await fetchPage("Bearer abc");
      assert.equal(page.status, status);
      assert.doesNotMatch(page.body, /page/);
    });
  }

  it("uses a renewed certificate within a minute, without closing its port", async () => {
    await listener.start();
    write(secondCertificate);
    assert.equal((await fetchPage("Bearer abc")).issuer, "first");
    await nextCheck(() => log.lines.length > 0);
    assert.equal((await fetchPage("Bearer abc")).issuer, "second");
    assert.deepEqual(
      log.lines.map(({ event }) => event),
      ["Certificate renewed"],
    );
  });

  it("keeps its certificate and logs once while the files are unusable", async () => {
    await listener.start();
    write({ ...secondCertificate, cert: firstCertificate.cert });
    await nextCheck(() => log.lines.length > 0);
    await clock.advance(60_000);
    assert.equal((await fetchPage("Bearer abc")).issuer, "first");
    const [line, ...more] = log.lines;
    assert.deepEqual([line?.event, more], ["Cannot renew certificate", []]);
    assert.match(String(line?.keys?.["err"]), /tls\.crt with private key .*tls\.key: .*mismatch/i);
  });

  it("opens no port while the certificate is missing, and opens it once it exists", async () => {
    rmSync(join(folder, "tls.key"));
    await listener.start();
    assert.equal(listener.port, undefined);
    assert.match(String(log.lines[0]?.keys?.["err"]), /ENOENT.*tls\.key/);
    write(firstCertificate);
    await clock.advance(5_000);
    for (let turns = 0; listener.port === undefined && turns < 1_000; turns += 1) {
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    assert.equal((await fetchPage("Bearer abc")).status, 200);
  });
});

describe("the settings of the secure metrics server", () => {
  const address = { "kube-ipvs-secure-metrics-bind-address": "0.0.0.0" };
  const files = {
    "kube-ipvs-secure-metrics-cert-file": "tls.crt",
    "kube-ipvs-secure-metrics-key-file": "tls.key",
  };

  it("use port 10261 by default", () => {
    assert.deepEqual(load({ ...address, ...files }).config.secureMetrics, {
      address: { address: "0.0.0.0", port: 10_261 },
      certFile: "tls.crt",
      keyFile: "tls.key",
    });
    assert.equal(load(files).config.secureMetrics, undefined);
  });

  it("are rejected without a certificate, a key or an API server", () => {
    assert.throws(
      () => load(address),
      /secureMetricsCertFile: is required.*secureMetricsKeyFile: is required/,
    );
    assert.throws(
      () => load({ ...address, ...files, manifests: "/etc/services" }),
      /needs an API server to check tokens/,
    );
  });
});

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { proxyFor } from "../../../../src/api/cluster/environment-proxy.ts";

const proxy = "http://proxy.test:3128";
const server = "https://api.cluster.test:6443";

describe("the environment's proxy", () => {
  const cases: readonly (readonly [
    name: string,
    environment: Readonly<Record<string, string>>,
    url: string,
    want: string | undefined,
  ])[] = [
    ["none", {}, server, undefined],
    ["for TLS", { HTTPS_PROXY: proxy, HTTP_PROXY: "x:1" }, server, proxy],
    ["in lower case", { https_proxy: proxy }, server, proxy],
    ["capitals first", { HTTPS_PROXY: proxy, https_proxy: "x:1" }, server, proxy],
    ["without a scheme", { HTTPS_PROXY: "proxy.test:3128" }, server, proxy],
    ["without TLS", { HTTPS_PROXY: "x:1", HTTP_PROXY: proxy }, "http://api.test", proxy],
    ["only for another scheme", { HTTP_PROXY: proxy }, server, undefined],
    ["never for localhost", { HTTPS_PROXY: proxy }, "https://localhost:6443", undefined],
    ["never for loopback", { HTTPS_PROXY: proxy }, "https://127.0.0.1:6443", undefined],
    ["never for loopback, IPv6", { HTTPS_PROXY: proxy }, "https://[::1]:6443", undefined],
  ];
  for (const [name, environment, url, want] of cases) {
    it(name, () => assert.equal(proxyFor(new URL(url), environment), want));
  }
});

describe("NO_PROXY", () => {
  const cases: readonly (readonly [noProxy: string, url: string, isExcepted: boolean])[] = [
    ["", server, false],
    ["*", server, true],
    ["api.cluster.test", server, true],
    ["API.Cluster.Test", server, true],
    ["cluster.test", server, true],
    ["luster.test", server, false],
    [".cluster.test", server, true],
    ["*.cluster.test", server, true],
    [".api.cluster.test", server, false],
    ["other.test, cluster.test", server, true],
    ["cluster.test:6443", server, true],
    ["cluster.test:443", server, false],
    ["cluster.test:443", "https://cluster.test", true],
    ["10.0.0.0/8", "https://10.1.2.3:6443", true],
    ["10.0.0.0/8", "https://11.1.2.3:6443", false],
    ["10.0.0.0/8", server, false],
    ["10.1.2.3", "https://10.1.2.3:6443", true],
    ["10.1.2.3:443", "https://10.1.2.3:6443", false],
    ["fd00::/8", "https://[fd00::1]:6443", true],
    ["fd00:0::1", "https://[fd00::1]:6443", true],
    ["[fd00::1]:6443", "https://[fd00::1]:6443", true],
    ["[fd00::1]:443", "https://[fd00::1]:6443", false],
  ];
  for (const [noProxy, url, isExcepted] of cases) {
    it(`'${noProxy}' ${isExcepted ? "excepts" : "does not except"} ${url}`, () => {
      const found = proxyFor(new URL(url), { HTTPS_PROXY: proxy, NO_PROXY: noProxy });
      assert.equal(found, isExcepted ? undefined : proxy);
    });
  }
});

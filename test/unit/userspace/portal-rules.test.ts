/** Tests the contents of the rules that redirect to listeners. */

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { IpAddress } from "../../../src/base/ip.ts";
import { renderRule } from "../../../src/kernel/iptables/render.ts";
import { listenAddressOf } from "../../../src/userspace/listen-addresses.ts";
import { portalRules } from "../../../src/userspace/portal-rules.ts";
import { serviceListeners } from "../../support/plan-at-once.ts";
import { cidr, ip, planOptions, serviceRecord } from "../../support/records.ts";
import { listenerFor } from "./backends.ts";

const web = {
  wanted: listenerFor([], { nodePort: 30_080 }),
  localPorts: { port: 40_001, portOnLoopback: 40_001 },
};
const dns = {
  wanted: listenerFor([], {
    key: "IPv6 kube-system/dns/UDP",
    portName: "kube-system/dns",
    family: "IPv6",
    protocol: "UDP",
    port: 53,
    addresses: ["fd00:96::a" as IpAddress, "2001:db8::1" as IpAddress],
  }),
  localPorts: { port: 40_002, portOnLoopback: 40_003 },
};

const linesOf = (family: "IPv4" | "IPv6", ...open: Parameters<typeof portalRules>[1]): string[] =>
  portalRules(family, open).chains.flatMap(({ table, name, rules }) =>
    rules.map((rule) => `${table} ${name} ${renderRule(family, rule)}`),
  );

describe("the rules of userspace mode", () => {
  it("redirect virtual IPs and node ports to the listener's port", () => {
    assert.deepEqual(linesOf("IPv4", web, dns), [
      'nat KUBE-PORTALS-CONTAINER -d 10.96.0.1/32 -p tcp -m comment --comment "default/web:http" -m tcp --dport 80 -j REDIRECT --to-ports 40001',
      'nat KUBE-PORTALS-HOST -d 10.96.0.1/32 -p tcp -m comment --comment "default/web:http" -m tcp --dport 80 -j REDIRECT --to-ports 40001',
      'nat KUBE-NODEPORT-CONTAINER -p tcp -m comment --comment "default/web:http" -m tcp --dport 30080 -j REDIRECT --to-ports 40001',
      'nat KUBE-NODEPORT-HOST -p tcp -m comment --comment "default/web:http" -m tcp --dport 30080 -j REDIRECT --to-ports 40001',
      'filter KUBE-NODEPORT-NON-LOCAL -p tcp -m comment --comment "default/web:http" -m tcp --dport 40001 -m conntrack --ctstate DNAT -j ACCEPT',
      'filter KUBE-NODEPORT-NON-LOCAL -p tcp -m comment --comment "default/web:http" -m tcp --dport 40001 -m conntrack --ctstate NEW -j DROP',
    ]);
    const portals = linesOf("IPv6", web, dns).filter((line) => line.includes("PORTALS-HOST"));
    assert.deepEqual(
      portals.map((line) => line.replace(/ -m comment --comment \S+/, "")),
      [
        "nat KUBE-PORTALS-HOST -d fd00:96::a/128 -p udp -m udp --dport 53 -j REDIRECT --to-ports 40003",
        "nat KUBE-PORTALS-HOST -d 2001:db8::1/128 -p udp -m udp --dport 53 -j REDIRECT --to-ports 40003",
      ],
    );
  });

  it("protect the listener's own port from clients, unless the Service has the same port on the node", () => {
    const inputOf = (fields: object): string[] =>
      linesOf("IPv4", { ...web, wanted: listenerFor([], fields) })
        .filter((line) => line.startsWith("filter"))
        .map((line) => line.replace(/.* --ctstate /, ""));
    const kept = ["DNAT -j ACCEPT", "NEW -j DROP"];
    const external = [ip("10.96.0.1"), ip("192.0.2.1")];
    assert.deepEqual(inputOf({ nodePort: 30_080 }), kept);
    assert.deepEqual(inputOf({ nodePort: 40_001 }), ["NEW -j ACCEPT"]);
    assert.deepEqual(inputOf({ port: 40_001 }), kept);
    assert.deepEqual(inputOf({ port: 40_001, addresses: external }), ["NEW -j ACCEPT"]);
  });

  it("lead to a load-balancer IP only from its source ranges, and to other addresses from everywhere", () => {
    const service = serviceRecord({
      type: "LoadBalancer",
      loadBalancerIps: [ip("203.0.113.10")],
      sourceRanges: [cidr("198.51.100.0/24"), cidr("192.0.2.7/32")],
    });
    const [wanted] = serviceListeners(service, [], planOptions());
    assert.ok(wanted !== undefined);
    const lines = linesOf("IPv4", { wanted, localPorts: web.localPorts });
    for (const chain of ["KUBE-PORTALS-CONTAINER", "KUBE-PORTALS-HOST"]) {
      assert.deepEqual(
        lines.filter((line) => line.includes(chain)).map((line) => line.replace(/ -p tcp .*/, "")),
        [
          `nat ${chain} -d 10.96.0.10/32`,
          `nat ${chain} -s 198.51.100.0/24 -d 203.0.113.10/32`,
          `nat ${chain} -s 192.0.2.7/32 -d 203.0.113.10/32`,
        ],
      );
    }
  });
});

describe("a listener's address", () => {
  const port = { family: "IPv4", port: 80, nodePort: 30_080 } as const;
  const at = (bindAddress: string, isRedirected: boolean, fields = {}): unknown =>
    listenAddressOf(
      { ...port, ...fields },
      { bindAddress: bindAddress as IpAddress, isRedirected },
    );

  it("has any free port with rules, and a known port without them", () => {
    assert.deepEqual(at("127.0.0.1", true), { host: "0.0.0.0", port: 0, isRedirected: true });
    assert.deepEqual(at("0.0.0.0", false), { host: "0.0.0.0", port: 30_080 });
    assert.deepEqual(at("127.0.0.1", false, { nodePort: 0 }), { host: "127.0.0.1", port: 80 });
    assert.deepEqual(at("0.0.0.0", false, { family: "IPv6" }), { host: "::", port: 30_080 });
    assert.equal(at("127.0.0.1", false, { family: "IPv6" }), undefined);
  });
});

/** Tests that, if rules exist, only some clients can reach the ports of userspace mode's own sockets. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { IpFamily } from "../../src/base/ip.ts";
import { node } from "../packet-paths/places.ts";
import type { Outcome } from "../packet-paths/probe.ts";
import { startUserspaceProxy } from "../packet-paths/proxy.ts";
import { destinationOf, type Frontend } from "../packet-paths/services.ts";
import { type RunningStations, startStations } from "../packet-paths/start-stations.ts";
import { shell } from "../support/netns/network-namespace.ts";

const families: readonly IpFamily[] = ["IPv4", "IPv6"];
const protocols = ["TCP", "UDP"] as const;

describe("the ports of listeners that rules redirect to", () => {
  let network: RunningStations;
  let proxy: Awaited<ReturnType<typeof startUserspaceProxy>>;

  before(async () => {
    network = await startStations();
    shell("sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1");
    proxy = await startUserspaceProxy();
  });
  after(async () => {
    await proxy.stop();
    await network.stop();
  });

  const ask = async (
    from: string,
    protocol: (typeof protocols)[number],
    to: { readonly address: string; readonly port: number },
    timeoutMs: number,
  ): Promise<Outcome["kind"]> => {
    const station = network.stations.get(from) ?? assert.fail();
    const sizes = { payloadBytes: 1, answerBytes: 1 };
    return (await station.probe({ protocol, ...to, ...sizes, timeoutMs })).kind;
  };

  it("do not answer clients and pods at a node address", async () => {
    const { modeView } = proxy;
    assert.ok("open" in modeView);
    const single = modeView.open().filter(({ wanted }) => wanted.service === "default/single");
    assert.equal(single.length, families.length * protocols.length);
    for (const { wanted, localPorts } of single) {
      const { family, protocol } = wanted;
      for (const from of ["client", "pod"]) {
        const to = { address: node[family], port: localPorts.port };
        const outcome = await ask(from, protocol, to, 1_500);
        assert.equal(outcome, "silence", `${from} → ${protocol} ${family}`);
      }
    }
  });

  const served: readonly (readonly [Frontend, readonly string[]])[] = [
    ["cluster IP", ["node", "pod", "client"]],
    ["external IP", ["node", "pod", "client"]],
    ["node port", ["node", "pod", "client"]],
  ];
  for (const [frontend, places] of served) {
    it(`answer the node, pods and clients at the ${frontend}`, async () => {
      for (const family of families) {
        for (const protocol of protocols) {
          for (const from of places) {
            const to = destinationOf("single", frontend, family);
            const outcome = await ask(from, protocol, to, 10_000);
            assert.equal(outcome, "answer", `${from} → ${protocol} ${family}`);
          }
        }
      }
    });
  }
});

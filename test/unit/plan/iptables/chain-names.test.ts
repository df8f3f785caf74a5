import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { endpointChain, servicePortChains } from "../../../../src/plan/iptables/chain-names.ts";

describe("chain names", () => {
  const owner = { service: "default/a", portName: "http", protocol: "TCP" } as const;

  it("equal those of kube-proxy for a service port", () => {
    assert.deepEqual(servicePortChains(owner), {
      cluster: "KUBE-SVC-LJLTKEPFIKH4UD4I",
      local: "KUBE-SVL-LJLTKEPFIKH4UD4I",
      external: "KUBE-EXT-LJLTKEPFIKH4UD4I",
      firewall: "KUBE-FW-LJLTKEPFIKH4UD4I",
    });
  });

  it("distinguish protocols and endpoints", () => {
    const ofUdp = servicePortChains({ ...owner, protocol: "UDP" });
    assert.notEqual(ofUdp.cluster, servicePortChains(owner).cluster);
    assert.equal(endpointChain(owner, "10.244.1.10:8080"), "KUBE-SEP-6E37RDV4FITU7CIU");
  });
});

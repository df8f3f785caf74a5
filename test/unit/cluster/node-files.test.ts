import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type Network, networkOf, serviceRange } from "../../cluster/network.ts";
import { nodeFiles } from "../../cluster/node-files.ts";

function filesOf(network: Network): Readonly<Record<string, string>> {
  const [node] = network.nodes;
  assert.ok(node);
  return nodeFiles(node, {
    ...{ network, folder: "/f", project: "/p", packages: "/d", modules: "/m", kubelet: "/k" },
    ...{ kubeProxy: undefined, mode: "ipvs", images: [], pauseImage: "pause:1" },
    credential: (file) => `/c/${file}`,
  });
}

interface Ipam {
  readonly ranges: readonly (readonly { readonly subnet: string }[])[];
  readonly routes: readonly { readonly dst: string }[];
}

function ipamOf(files: Readonly<Record<string, string>>): Ipam {
  const { plugins } = JSON.parse(files["10-bridge.conflist"] ?? "") as {
    readonly plugins: readonly { readonly ipam: Ipam }[];
  };
  assert.ok(plugins[0]);
  return plugins[0].ipam;
}

describe("A node's files", () => {
  it("route the pods of all other nodes", () => {
    assert.match(
      filesOf(networkOf(3))["environment"] ?? "",
      /^export ROUTES='10\.244\.2\.0\/24,192\.168\.10\.12 fd00:10:244:2::\/64,fd00:10::12 10\.244\.3\.0\/24,192\.168\.10\.13 fd00:10:244:3::\/64,fd00:10::13'$/m,
    );
  });

  it("give pods and the node one address by default", () => {
    const files = filesOf(networkOf(2));
    assert.match(files["environment"] ?? "", /^export NODE_IPS='192\.168\.10\.11'$/m);
    assert.deepEqual(ipamOf(files).ranges, [[{ subnet: "10.244.1.0/24" }]]);
    assert.deepEqual(ipamOf(files).routes, [{ dst: "0.0.0.0/0" }]);
  });

  it("give pods and the node addresses of two families", () => {
    const network = networkOf(2, ["IPv4", "IPv6"]);
    const files = filesOf(network);
    assert.match(files["environment"] ?? "", /^export NODE_IPS='192\.168\.10\.11,fd00:10::11'$/m);
    assert.deepEqual(ipamOf(files), {
      type: "host-local",
      ranges: [[{ subnet: "10.244.1.0/24" }], [{ subnet: "fd00:10:244:1::/64" }]],
      routes: [{ dst: "0.0.0.0/0" }, { dst: "::/0" }],
    });
    assert.match(files["kube-proxy.json"] ?? "", /"10\.244\.0\.0\/16,fd00:10:244::\/56"/);
    assert.equal(serviceRange(network), "10.96.0.0/16,fd00:10:96::/112");
  });
});

describe("The nodes", () => {
  it("are in three zones", () => {
    assert.deepEqual(
      networkOf(4).nodes.map(({ zone }) => zone),
      ["zone1", "zone2", "zone3", "zone1"],
    );
  });
});

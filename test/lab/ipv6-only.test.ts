/**
 * Port ranges, weights and racks on a node without IPv4 addresses, with real packets and with both settings of
 * `kubeIpvs.virtualAddresses`. The Services and the Nodes have only IPv6 addresses, too.
 */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { rangeMark } from "../../src/plan/port-ranges.ts";
import { askName } from "../support/client-traffic.ts";
import { LabNode, until } from "../support/lab-node.ts";
import { shell } from "../support/netns/network-namespace.ts";
import { addIpv6, ipv6Of } from "../support/node-network.ts";
import {
  type ApiObject,
  endpoint,
  endpointSlice,
  node as nodeObject,
  service,
} from "../support/objects.ts";
import { patienceMs } from "../support/patience.ts";
import { ip } from "../support/records.ts";
import { rulesFlags } from "../support/rules-writer.ts";
import { explained, kubeIpvs } from "../support/run-kube-ipvs.ts";

const pods = [
  { name: "pod-1", address: "10.244.1.10" },
  { name: "pod-2", address: "10.244.1.20" },
];
const podPort = 8080;
const marks = 0x3fff0000;
const rackLabel = "example.com/rack";
const clusterIps = { range: "fd00:96::a", weights: "fd00:96::b", rack: "fd00:96::c" };
type Name = keyof typeof clusterIps;
const annotations: Readonly<Record<Name, Readonly<Record<string, string>>>> = {
  range: { "kube-ipvs.io/port-range": "8000-8100" },
  weights: { "kube-ipvs.io/scheduler": "wrr", "kube-ipvs.io/weights": "slice" },
  rack: { "kube-ipvs.io/prefer-topology": rackLabel },
};

/** The pods are on different Nodes. The first one's slice has weight 3. */
function objectsOf(name: Name): readonly ApiObject[] {
  return [
    service({
      ...{ name, clusterIps: [clusterIps[name]], metadata: { annotations: annotations[name] } },
      ports: [{ name: "http", protocol: "TCP", port: 80, targetPort: podPort }],
      spec: { ipFamilies: ["IPv6"], ipFamilyPolicy: "SingleStack" },
    }),
    ...pods.map((pod, index) =>
      endpointSlice({
        ...{ name: `${name}-${index}`, service: name, addressType: "IPv6" },
        endpoints: [endpoint(ipv6Of(pod), { nodeName: `node-${index + 1}` })],
        ports: [{ name: "http", protocol: "TCP", port: podPort }],
        metadata: { annotations: { "kube-ipvs.io/weight": index === 0 ? "3" : "1" } },
      }),
    ),
  ];
}

const nodes = pods.map((_, index) =>
  nodeObject({
    name: `node-${index + 1}`,
    addresses: [`fd00:10::1${index + 1}`],
    podCidrs: [`fd00:244:${index + 1}::/64`],
    labels: { [rackLabel]: `rack-${index + 1}` },
  }),
);

async function shareOf(count: number, address: string, port: number): Promise<string> {
  const names: string[] = [];
  for (let turn = 0; turn < count; turn++) names.push(await askName(address, port));
  return pods.map(({ name }) => names.filter((one) => one === name).length).join(" ");
}

describe("on a node with only IPv6", () => {
  let node: LabNode;

  before(async () => {
    node = await LabNode.build(pods);
    addIpv6(pods);
    const places = ["client", "node", ...pods.map(({ name }) => name)];
    shell(places.map((place) => `ip -n ${place} -4 address flush scope global`).join("\n"));
    node.apply(...nodes, ...(Object.keys(clusterIps) as Name[]).flatMap(objectsOf));
  });
  after(() => node.destroy());

  for (const form of ["addresses", "routes"] as const) {
    const flags = [
      "--cluster-cidr=fd00:244::/32",
      `--kube-ipvs-port-range-marks=0x${marks.toString(16)}`,
      `--kube-ipvs-virtual-addresses=${form}`,
      ...rulesFlags,
    ];

    it(`port ranges, weights and racks apply, with virtual IPs as ${form}`, async () => {
      await node.start(flags);
      const range = `-f ${rangeMark(ip(clusterIps.range), marks)} -6`;
      const hasAll = async (): Promise<boolean> => {
        const servers = shell("ipvsadm -Sn");
        const weights = [...servers.matchAll(/-t \[fd00:96::[bc]\]:80 -r .*-w (\d)/g)];
        return servers.includes(range) && weights.map(([, one]) => one).join() === "3,1,1";
      };
      await until(
        hasAll,
        patienceMs,
        async () => `${shell("ipvsadm -Sn")}\n${node.program.output}`,
      );
      assert.equal(await shareOf(4, clusterIps.range, podPort), "2 2");
      assert.equal(await shareOf(8, clusterIps.weights, 80), "6 2");
      assert.equal(await shareOf(4, clusterIps.rack, 80), "4 0");
      assert.doesNotMatch(shell("ipvsadm -Sn"), /\d+\.\d+\.\d+\.\d+/);
    });

    it(`\`explain\` and \`plan\` find no difference, with virtual IPs as ${form}`, async () => {
      const to = (address: string, port: number): unknown =>
        explained(`[${address}]:${port}`, "--from", "fd00:10::1").map(
          ({ verdict, differences }) => [verdict, differences],
        );
      assert.deepEqual(to(clusterIps.range, podPort), [["balanced", []]]);
      assert.deepEqual(to(clusterIps.range, 9_999), [["refused", []]]);
      assert.deepEqual(to(clusterIps.rack, 80), [["balanced", []]]);
      const { code, out, err } = kubeIpvs("plan", ...node.flags, ...flags);
      assert.equal(code, 0, out + err);
      await node.stop();
    });
  }
});

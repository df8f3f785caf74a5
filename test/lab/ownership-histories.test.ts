/**
 * Changes kube-ipvs's virtual servers while the program is stopped or cannot remove anything. The next start and
 * `--cleanup` must make the same decisions, and no virtual server with old pods may remain. Foreign virtual servers are
 * kept in every history.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { nodeSetUp } from "../golden/node-set-up.ts";
import { ClusterNode, type NodeSettings } from "../support/cluster-node.ts";
import { shell, withNetworkNamespace } from "../support/netns/network-namespace.ts";
import { type ApiObject, endpointSlice, service, servicePort } from "../support/objects.ts";

const foreignSetUp: readonly string[] = [
  "ipvsadm -A -t 10.50.0.1:80 -s wlc",
  "ipvsadm -a -t 10.50.0.1:80 -r 10.50.1.1:80 -g -w 5",
  "ipvsadm -A -t 192.168.10.11:5000 -s sh",
  // Another port on an address that a Service has in every history.
  "ipvsadm -A -t 10.96.0.11:5001 -s sh",
];
const foreignText = [
  "-A -t 10.50.0.1:80 -s wlc",
  "-A -t 10.96.0.11:5001 -s sh",
  "-A -t 192.168.10.11:5000 -s sh",
  "-a -t 10.50.0.1:80 -r 10.50.1.1:80 -g -w 5",
].join("\n");

const web = service({ type: "NodePort", ports: [servicePort({ nodePort: 30_080 })] });
const otherPort = servicePort({ nodePort: 30_081 });
const other = service({
  name: "other",
  type: "NodePort",
  clusterIps: ["10.96.0.11"],
  ports: [otherPort],
});
const oldPod = "10.244.2.11";
const newPod = "10.244.2.12";
const objects: readonly ApiObject[] = [
  web,
  endpointSlice({ endpoints: [oldPod] }),
  other,
  endpointSlice({ name: "other-a", service: "other", endpoints: ["10.244.2.20"] }),
];

interface History {
  readonly name: string;
  readonly settings?: NodeSettings;
  /** Changes while the program runs. */
  readonly running?: (node: ClusterNode) => void | Promise<void>;
  readonly signal?: "SIGTERM" | "SIGKILL";
  /** Changes after the program stopped. */
  readonly away?: (node: ClusterNode) => void;
  /** Changes after the next start. */
  readonly after?: (node: ClusterNode) => void | Promise<void>;
  /** Skips the clean-up test. A clean-up does not read Services, so another history leads to the same clean-up. */
  readonly isOldToCleanUp?: true;
  /** The virtual servers that remain at the end, with their real servers, in the format of `ipvsadm -Sn`. */
  readonly left: readonly string[];
}

const otherAddresses = ["10.96.0.11:80", "192.168.10.11:30081", "172.16.5.11:30081"];

function serverLines(places: readonly string[], pod: string): readonly string[] {
  return places.flatMap((place) => [
    `-A -t ${place} -s rr`,
    `-a -t ${place} -r ${pod}:8080 -m -w 1`,
  ]);
}
const otherLines = serverLines(otherAddresses, "10.244.2.20");
const webAddresses = ["10.96.0.10:80", "192.168.10.11:30080", "172.16.5.11:30080"];

const claimed = "10.96.0.12:80";
const contested = service({ name: "contested", clusterIps: ["10.96.0.12"] });

/** A Service claims a foreign virtual server, which the record names from then on. */
async function isContested(node: ClusterNode): Promise<void> {
  shell(`ipvsadm -A -t ${claimed} -s wlc; ipvsadm -a -t ${claimed} -r 10.50.1.1:80 -m`);
  node.api.apply(contested, endpointSlice({ service: "contested", endpoints: [oldPod] }));
  const reason = { reason: "foreign-virtual-server" };
  const count = () => node.metric("kube_ipvs_frontend_conflicts", reason);
  await node.until("the conflict is detected", async () => (await count()) === 1);
  await node.verified(1);
}

/** Simulates a takeover by kube-proxy, or by a version without a record. */
function takeOverByAnother(): void {
  shell(`ipset add KUBE-CLUSTER-IP 10.96.0.12,tcp:80; ipset add KUBE-IPVS-IPS 10.96.0.12
ip address add 10.96.0.12/32 dev kube-ipvs0
ipvsadm -E -t ${claimed} -s rr; ipvsadm -d -t ${claimed} -r 10.50.1.1:80
ipvsadm -a -t ${claimed} -r ${oldPod}:8080 -m -w 1`);
}

const histories: readonly History[] = [
  {
    name: "a third party's virtual server that a Service claims is taken over by another proxy in between",
    running: isContested,
    away: (node) => {
      takeOverByAnother();
      node.api.apply(endpointSlice({ service: "contested", endpoints: [newPod] }));
    },
    left: [...serverLines(webAddresses, oldPod), ...otherLines, ...serverLines([claimed], newPod)],
  },
  {
    name: "a node address is removed while the program is stopped, and returns after its Service is deleted",
    away: () => shell("ip address del 172.16.5.11/24 dev eth1"),
    after: async (node) => {
      await node.until("its node port is not served there", () => !printed().includes("172.16.5."));
      node.api.delete(...objects.slice(0, 2));
      await node.until("the Service goes", () => !printed().includes(oldPod));
      shell("ip address add 172.16.5.11/24 dev eth1");
    },
    left: otherLines,
  },
  {
    name: "a node address is removed and its Service deleted after the program was killed",
    isOldToCleanUp: true,
    signal: "SIGKILL",
    away: (node) => {
      shell("ip address del 172.16.5.11/24 dev eth1");
      node.api.delete(...objects.slice(0, 2));
    },
    left: serverLines(otherAddresses.slice(0, 2), "10.244.2.20"),
  },
  {
    name: "an entry of KUBE-NODE-PORT-TCP is deleted while the program is stopped, then an endpoint changes",
    away: () => shell("ipset del KUBE-NODE-PORT-TCP 30080"),
    after: (node) => node.api.apply(endpointSlice({ endpoints: [newPod] })),
    left: [...serverLines(webAddresses, newPod), ...otherLines],
  },
  {
    name: "an entry of KUBE-NODE-PORT-TCP is deleted and an endpoint changes while the program is stopped",
    isOldToCleanUp: true,
    away: (node) => {
      shell("ipset del KUBE-NODE-PORT-TCP 30080");
      node.api.apply(endpointSlice({ endpoints: [newPod] }));
    },
    left: [...serverLines(webAddresses, newPod), ...otherLines],
  },
  {
    name: "a Service is deleted and all sets are flushed while the program is stopped",
    away: (node) => {
      shell("ipset flush");
      node.api.delete(...objects.slice(0, 2));
    },
    left: otherLines,
  },
  {
    name: "a Service is deleted after the program was killed, and an entry of KUBE-NODE-PORT-TCP with it",
    isOldToCleanUp: true,
    signal: "SIGKILL",
    away: (node) => {
      shell("ipset del KUBE-NODE-PORT-TCP 30080");
      node.api.delete(...objects.slice(0, 2));
    },
    left: otherLines,
  },
  {
    name: "a Service is deleted while its addresses are in excludeCIDRs, and a restart unsets excludeCIDRs",
    settings: { ipvs: { excludeCIDRs: ["10.96.0.10/32", "192.168.10.0/24", "172.16.0.0/16"] } },
    running: (node) => leaves(node),
    away: (node) => node.configure({}),
    left: otherLines,
  },
  {
    name: "a Service is deleted while its addresses are in excludeCIDRs, and excludeCIDRs is unset while the program runs",
    isOldToCleanUp: true,
    settings: { ipvs: { excludeCIDRs: ["10.96.0.10/32", "192.168.10.0/24", "172.16.0.0/16"] } },
    running: async (node) => {
      await leaves(node);
      node.configure({});
      await node.until("they go", () => !printed().includes(oldPod));
    },
    left: otherLines,
  },
  {
    name: "a Service is deleted while its addresses are in excludeCIDRs, over two restarts",
    isOldToCleanUp: true,
    settings: { ipvs: { excludeCIDRs: ["10.96.0.10/32", "192.168.10.0/24", "172.16.0.0/16"] } },
    running: async (node) => {
      await leaves(node);
      await node.stop();
      await node.start();
      assert.ok(printed().includes("10.96.0.10:80"), node.tail());
    },
    away: (node) => node.configure({}),
    left: otherLines,
  },
];

/**
 * Deletes the Service, and waits until another change shows that the deletion was processed. The Service's virtual
 * servers are in an excluded network and are kept.
 */
async function leaves(node: ClusterNode): Promise<void> {
  node.api.delete(...objects.slice(0, 2));
  await node.until("its entries are removed", () => !shell("ipset save").includes("10.96.0.10,"));
  assert.ok(printed().includes("10.96.0.10:80"), node.tail());
}

function printed(): string {
  return shell("ipvsadm -Sn");
}

/** Sorted lines, with foreign virtual servers listed separately. */
function splitServers(): { readonly ours: readonly string[]; readonly foreign: string } {
  const lines = printed()
    .split("\n")
    .map((line) => line.trimEnd())
    .filter((line) => line !== "")
    .sort();
  const isForeign = (line: string): boolean => / (?:10\.50\.0\.1:80|\S+:500[01]) /.test(line);
  return {
    ours: lines.filter((line) => !isForeign(line)),
    foreign: lines.filter(isForeign).join("\n"),
  };
}

/** Runs a history up to the stop, then `body`. */
async function withHistory(
  { settings, running, signal, away }: History,
  body: (node: ClusterNode) => Promise<void>,
): Promise<void> {
  await withNetworkNamespace("history", [...nodeSetUp, ...foreignSetUp], async () => {
    const node = await ClusterNode.build(objects, settings);
    try {
      await node.start();
      await running?.(node);
      // The files for the next start are written before the first verification ends.
      if (signal === "SIGKILL") await node.verified(1);
      await node.stop(signal);
      away?.(node);
      await body(node);
    } finally {
      await node.close();
    }
  });
}

describe("the next start removes all outdated objects of kube-ipvs", () => {
  for (const history of histories) {
    it(history.name, async () => {
      await withHistory(history, async (node) => {
        await node.start();
        await history.after?.(node);
        const wanted = [...history.left].sort().join("\n");
        await node
          .until("the kernel state is as desired", () => splitServers().ours.join("\n") === wanted)
          .catch((error: unknown) => {
            assert.equal(splitServers().ours.join("\n"), wanted, String(error));
          });
        assert.equal(splitServers().foreign, foreignText);
      });
    });
  }
});

describe("--cleanup removes all objects of kube-ipvs", () => {
  for (const history of histories.filter(({ isOldToCleanUp }) => isOldToCleanUp === undefined)) {
    it(history.name, async () => {
      await withHistory(history, async (node) => {
        const output = await node.cleanUp();
        assert.deepEqual(splitServers(), { ours: [], foreign: foreignText }, output);
        assert.equal(shell("ipset list -n"), "", output);
      });
    });
  }
});

/**
 * Tests that foreign virtual servers in a real kernel are kept, counted and logged. Also tests the takeover of
 * kube-proxy's recorded states, restarts and clean-up.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { KernelState } from "../golden/kernel-state.ts";
import { compareStates, differenceText } from "../golden/kernel-state.ts";
import { nodeSetUp } from "../golden/node-set-up.ts";
import { observeKernel } from "../golden/observe.ts";
import { replayLines } from "../golden/replay.ts";
import { readScenario } from "../golden/scenario.ts";
import {
  cleanUpLab,
  eventually,
  type Flags,
  type LabDaemon,
  withLabDaemon,
} from "../support/lab-daemon.ts";
import { shell, withNetworkNamespace } from "../support/netns/network-namespace.ts";
import { type ApiObject, endpointSlice, service, servicePort } from "../support/objects.ts";
import { patienceMs } from "../support/patience.ts";
import {
  flushSets,
  labRules,
  listIpsets,
  listIptables,
  listRules,
  movedChange,
  rulesOfIptables,
  unlessIptables,
} from "../support/rules-writer.ts";

/** Another program's virtual servers: by address, on a node address, and by firewall mark. */
const foreignSetUp = `
  ipvsadm -A -t 10.50.0.1:80 -s wlc
  ipvsadm -a -t 10.50.0.1:80 -r 10.50.1.1:80 -g -w 5
  ipvsadm -A -u 192.168.10.11:5000 -s sh
  ipvsadm -A -f 7 -s rr
  ipvsadm -a -f 7 -r 10.50.1.2:0 -g
  ipvsadm -A -t [fd00:50::1]:80 -s wlc
`;
const foreignKeys = ["TCP 10.50.0.1:80", "UDP 192.168.10.11:5000", "TCP [fd00:50::1]:80"];

function inNamespace(setUp: readonly string[], body: () => Promise<void>): Promise<void> {
  return withNetworkNamespace("foreign", [...nodeSetUp, ...setUp], body);
}

/** Lines of `ipvsadm -Sn` about foreign virtual servers. */
function foreignLines(): readonly string[] {
  return shell("ipvsadm -Sn")
    .split("\n")
    .filter((line) => /10\.50\.|192\.168\.10\.11:5000 |-f 7|fd00:50/.test(line))
    .sort();
}

function isEmptyBut(lines: readonly string[]): boolean {
  return shell("ipvsadm -Sn").trim().split("\n").filter(Boolean).length === lines.length;
}

async function kernelChanges(daemon: LabDaemon): Promise<readonly string[]> {
  const lines = await daemon.metrics("kube_ipvs_kernel_changes_total");
  return lines.map((line) => line.replace("kube_ipvs_kernel_changes_total", ""));
}

function told(daemon: LabDaemon, reason: string): readonly unknown[] {
  return daemon.lines
    .filter(({ keys }) => keys["reason"] === reason)
    .map(({ keys }) => keys["virtualServer"]);
}

const web = service({ type: "NodePort", ports: [servicePort({ nodePort: 30_080 })] });
const slice = endpointSlice({ endpoints: ["10.244.2.11"] });

describe("foreign virtual servers", () => {
  it("survive starts, restarts and the deletion of all Services, and are counted and logged once", async () => {
    await inNamespace([], async () => {
      shell(foreignSetUp);
      const before = foreignLines();
      const flags: Flags = { "ipvs-sync-period": "1s" };
      await withLabDaemon([web, slice], flags, async (daemon) => {
        assert.deepEqual(foreignLines(), before);
        const counted = async (): Promise<readonly string[]> =>
          daemon.metrics("kube_ipvs_foreign_virtual_servers");
        await eventually(counted, ["kube_ipvs_foreign_virtual_servers 3"], patienceMs);
        await new Promise((resolve) => setTimeout(resolve, 3_000));
        assert.deepEqual(told(daemon, "foreign-virtual-server").toSorted(), foreignKeys.toSorted());
        assert.deepEqual(daemon.errors, []);
      });
      await withLabDaemon([], flags, async () => {
        assert.deepEqual(foreignLines(), before);
        assert.ok(isEmptyBut(before), shell("ipvsadm -Sn"));
      });
    });
  });

  for (const [name, own] of [
    ["foreignVirtualServers: delete", { "kube-ipvs-foreign-virtual-servers": "delete" }],
    ["profile: kube-proxy", { "kube-ipvs-profile": "kube-proxy" }],
  ] as const) {
    it(`are deleted with ${name}, except those in excluded networks and with firewall marks`, async () => {
      await inNamespace([], async () => {
        shell(foreignSetUp);
        const flags: Flags = {
          ...own,
          "proxy-mode": "ipvs",
          "ipvs-exclude-cidrs": "10.50.0.0/16",
        };
        await withLabDaemon([web, slice], flags, async () => {
          const left = foreignLines().filter((line) => line.startsWith("-A"));
          assert.deepEqual(left, ["-A -f 7 -s rr", "-A -t 10.50.0.1:80 -s wlc"]);
        });
      });
    });
  }

  const claims: readonly {
    readonly name: string;
    readonly claiming: ApiObject;
    readonly key: string;
  }[] = [
    {
      name: "an external IP",
      claiming: service({ spec: { externalIPs: ["10.50.0.1"] } }),
      key: "TCP 10.50.0.1:80",
    },
    {
      name: "a node port",
      claiming: service({
        type: "NodePort",
        ports: [servicePort({ protocol: "UDP", nodePort: 5_000 })],
      }),
      key: "UDP 192.168.10.11:5000",
    },
    {
      name: "a cluster IP of the other family",
      claiming: service({ clusterIps: ["fd00:50::1"] }),
      key: "TCP [fd00:50::1]:80",
    },
  ];
  for (const { name, claiming, key } of claims) {
    it(`are not changed if a Service claims their address: ${name}`, async () => {
      await inNamespace([], async () => {
        shell(foreignSetUp);
        const before = foreignLines();
        await withLabDaemon([claiming, slice], { "ipvs-sync-period": "1s" }, async (daemon) => {
          assert.deepEqual(foreignLines(), before);
          const warned = daemon.lines.filter(
            ({ level, keys }) => level === "warn" && keys["virtualServer"] === key,
          );
          assert.equal(warned.length, 1, JSON.stringify(daemon.lines));
          assert.equal(warned[0]?.keys["servicePortName"], "default/web:http");
          const counted = await daemon.metrics("kube_ipvs_frontend_conflicts");
          assert.ok(
            counted.includes('kube_ipvs_frontend_conflicts{reason="foreign-virtual-server"} 1'),
            counted.join("\n"),
          );
          const [, place = ""] = key.split(" ");
          const option = key.startsWith("UDP") ? "-u" : "-t";
          shell(`ipvsadm -D ${option} ${place}`);
          await eventually(
            () => shell("ipvsadm -Sn").includes(`-A ${option} ${place} -s rr`),
            true,
            patienceMs,
          );
        });
      });
    });
  }
});

/** Recorded states of kube-proxy with every kind of ownership mark. */
const takeOvers: readonly string[] = [
  "clusterip-tcp",
  "clusterip-udp-affinity",
  "dual-stack-lb",
  "external-ips",
  "external-ip-is-node-ip",
  "lb-local-health",
  "lb-source-ranges",
  "nodeport-cluster",
  "nodeport-local-udp",
  "nodeport-sctp",
];

function recordedBy(name: string): {
  readonly objects: readonly ApiObject[];
  readonly recorded: KernelState;
} {
  const [step] = readScenario(name).steps;
  const { health: _, ...recorded } = step?.recorded ?? {};
  return { objects: (step?.apply ?? []) as readonly unknown[] as readonly ApiObject[], recorded };
}

const skip = unlessIptables("kube-proxy's IPVS mode needs it");
describe("state that kube-proxy left behind", { skip }, () => {
  for (const name of takeOvers) {
    it(`is taken over without a change: ${name}`, async () => {
      const { objects, recorded } = recordedBy(name);
      await inNamespace(replayLines(recorded), async () => {
        shell(foreignSetUp);
        const before = foreignLines();
        await withLabDaemon(objects, {}, async (daemon) => {
          const changes = await kernelChanges(daemon);
          assert.deepEqual(
            changes.filter((line) => !movedChange.test(line)),
            [],
          );
          assert.deepEqual(foreignLines(), before);
          if (labRules !== undefined) await eventually(rulesOfIptables, "", patienceMs);
          shell(
            "ipvsadm -D -t 10.50.0.1:80; ipvsadm -D -u 192.168.10.11:5000; ipvsadm -D -f 7; ipvsadm -D -t [fd00:50::1]:80",
          );
          const differences = compareStates(recorded, await observeKernel([]));
          assert.deepEqual(differences.map(differenceText), []);
        });
      });
    });
  }

  it("is removed completely when its Services are deleted, but other objects remain", async () => {
    const { objects, recorded } = recordedBy("nodeport-cluster");
    await inNamespace(replayLines(recorded), async () => {
      shell(foreignSetUp);
      const before = foreignLines();
      const nodes = objects.filter(({ kind }) => kind === "Node");
      await withLabDaemon(nodes, {}, async (daemon) => {
        assert.ok(isEmptyBut(before), shell("ipvsadm -Sn"));
        assert.deepEqual(foreignLines(), before);
        if (labRules !== undefined) await eventually(rulesOfIptables, "", patienceMs);
        assert.doesNotMatch(shell(listRules), /^add|elements = /m);
        assert.deepEqual(daemon.errors, []);
      });
    });
  });
});

describe("sets that were flushed", () => {
  it("while kube-ipvs was not running do not make its virtual servers foreign", async () => {
    await inNamespace([], async () => {
      await withLabDaemon([web, slice], {}, async () => {});
      const before = shell("ipvsadm -Sn | sort");
      shell(flushSets);
      const changed = endpointSlice({ endpoints: ["10.244.2.12"] });
      await withLabDaemon([web, changed], {}, async (daemon) => {
        assert.deepEqual(told(daemon, "foreign-virtual-server"), []);
        assert.equal(shell("ipvsadm -Sn | sort"), before.replaceAll("10.244.2.11", "10.244.2.12"));
      });
    });
  });
});

describe("clean-up", () => {
  it("keeps and lists foreign virtual servers", async () => {
    await inNamespace([], async () => {
      shell(foreignSetUp);
      const before = foreignLines();
      await withLabDaemon([web, slice], {}, async () => {});
      const lines = await cleanUpLab();
      assert.ok(isEmptyBut(before), shell("ipvsadm -Sn"));
      assert.deepEqual(foreignLines(), before);
      for (const key of foreignKeys)
        assert.ok(lines.includes(`Kept ${key}: it belongs to other software`));
      assert.equal(shell(listIpsets), "");
      assert.doesNotMatch(shell(`${listIptables}; ${listRules}`), /KUBE-/);
      assert.equal(shell("ip link show kube-ipvs0 2>/dev/null || true"), "");
    });
  });

  it("keeps virtual servers in excludeCIDRs, regardless of who created them", async () => {
    await inNamespace([], async () => {
      shell(foreignSetUp);
      await withLabDaemon([web, slice], {}, async () => {});
      const lines = await cleanUpLab({
        "ipvs-exclude-cidrs": "10.96.0.0/16,fd00:50::/64",
        "kube-ipvs-foreign-virtual-servers": "delete",
      });
      const left = shell("ipvsadm -Sn")
        .split("\n")
        .filter((line) => line.startsWith("-A"))
        .sort();
      assert.deepEqual(left, [
        "-A -f 7 -s rr",
        "-A -t 10.96.0.10:80 -s rr",
        "-A -t [fd00:50::1]:80 -s wlc",
      ]);
      assert.ok(
        lines.includes("Kept TCP 10.96.0.10:80: excludeCIDRs contains its address"),
        lines.join("\n"),
      );
    });
  });
});

/**
 * The kernel rejects one object among a hundred Services. The rejection must be logged once with the Service, and
 * nothing else may be affected. Tests an endpoint that every kernel rejects and, with fault injection, set entries, an
 * address, virtual servers and a chain.
 */
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { after, before, describe, it } from "node:test";
import { encodeChange } from "../../src/kernel/ipvs/codec.ts";
import { MessageWriter } from "../../src/netlink/message.ts";
import type { VirtualServer } from "../../src/state/virtual-server.ts";
import { endFaults, rejectRequests, underFaults } from "../faults/netlink-fault.ts";
import { nodeSetUp } from "../golden/node-set-up.ts";
import { ClusterNode } from "../support/cluster-node.ts";
import { nameOf, positions, serviceOf, sliceOf } from "../support/many-services.ts";
import {
  createNetworkNamespace,
  enterNetworkNamespace,
  leaveNetworkNamespace,
  removeNetworkNamespace,
  shell,
} from "../support/netns/network-namespace.ts";
import {
  type ApiObject,
  endpoint,
  endpointSlice,
  service,
  servicePort,
  slicePort,
} from "../support/objects.ts";
import { ip } from "../support/records.ts";
import {
  rejectInput,
  rejectingPath,
  rejectNothing,
  wrapIptablesRestore,
} from "../support/rejecting-restore.ts";
import { labRules } from "../support/rules-writer.ts";

const namespace = "refused";
const serviceCount = 100;
/** The broadcast address of eth0's network, for which the kernel returns EINVAL. */
const broadcast = "192.168.10.255";
const secondsToHealth = 15_000;

const bulk: readonly ApiObject[] = positions(serviceCount).flatMap((index) => [
  serviceOf(index),
  sliceOf(index, positions(2)),
]);

/** Runs the program with the library and wrapper that reject requests. */
const environment = {
  ...underFaults.environment,
  PATH: rejectingPath,
};

/** IPVS_CMD_NEW_SERVICE (linux/ip_vs.h) for this address, with or without its port. */
function refuseCreation(address: string, port?: number): void {
  const after: VirtualServer = {
    ...{ protocol: "TCP", address: ip(address), port: port ?? 0, scheduler: "rr", flags: 0 },
    ...{ persistenceTimeoutSeconds: 0, persistencePrefixLength: 32 },
  };
  const writer = new MessageWriter();
  encodeChange(writer, { kind: "virtual-server-create", after });
  // Two headers of 4 bytes, then attributes of 8, 8, 20 and 8 bytes.
  const content = writer.written.subarray(0, port === undefined ? 44 : 52);
  rejectRequests({ protocol: 16, subsystem: -1, errno: 22, percent: 100, content });
}

let node: ClusterNode;

before(async () => {
  createNetworkNamespace(namespace, nodeSetUp);
  enterNetworkNamespace(namespace);
  mkdirSync("/run/faults", { recursive: true });
  wrapIptablesRestore();
  // Disables the verification, which may read everything, because this test counts only the cost of changes and
  // rejections.
  node = await ClusterNode.build(bulk, { kubeIpvs: { verificationPeriod: "1h" } });
  await node.start(environment);
});
after(async () => {
  await node.close();
  leaveNetworkNamespace();
  removeNetworkNamespace(namespace);
});

/** The lines of one virtual server's real servers. */
function realServersAt(place: string): readonly string[] {
  const lines = shell("ipvsadm -Sn").split("\n");
  return lines.filter((line) => line.startsWith(`-a -t ${place} `));
}

function realServersOf(index: number): number {
  return realServersAt(`${clusterIp(index)}:80`).length;
}

function clusterIp(index: number): string {
  return (serviceOf(index)["spec"] as { readonly clusterIP: string }).clusterIP;
}

function rejectedCount(kind: string, labels: Record<string, string> = {}): Promise<number> {
  return node.metric("kube_ipvs_refused_objects", { kind, ...labels });
}

/** Log lines about the start or end of an object's rejection. */
function linesAbout(subject: RegExp): readonly string[] {
  return node
    .lines()
    .filter((line) => subject.test(JSON.stringify(line)))
    .map((line) => JSON.stringify(line));
}

/**
 * Changes other Services ten times: each change reaches the kernel, none causes a full sync, and the node stays
 * healthy.
 */
async function changesElsewhereGoThrough(): Promise<void> {
  const slowMs = 20_000;
  const full = (): Promise<number> => node.metric("kube_ipvs_sync_runs_total", { kind: "full" });
  const partial = (): Promise<number> =>
    node.metric("kube_ipvs_sync_runs_total", { kind: "partial" });
  const [fullBefore, partialBefore] = [await full(), await partial()];
  for (const turn of positions(10)) {
    const count = realServersOf(turn) === 3 ? 2 : 3;
    node.api.apply(sliceOf(turn, positions(count)));
    await node.until(
      `the change of ${nameOf(turn)} is in the kernel`,
      () => realServersOf(turn) === count,
      slowMs,
    );
    assert.equal(await node.healthStatus(), 200, node.tail());
  }
  assert.equal((await full()) - fullBefore, 0, node.tail());
  assert.ok((await partial()) - partialBefore >= 10, node.tail());
}

async function becomesHealthy(): Promise<void> {
  await node.until(
    "/healthz is 200",
    async () => (await node.healthStatus()) === 200,
    secondsToHealth,
  );
}

/** Asserts that there is exactly one line for the start, which names the Service, and one for the end. */
function toldOnce(subject: RegExp, serviceName: string, count: number): void {
  const lines = linesAbout(subject);
  assert.equal(lines.length, count, lines.join("\n"));
  for (const line of lines) assert.ok(line.includes(`"service":"default/${serviceName}"`), line);
}

/** Waits until the count has this value, and returns the number of seconds. */
async function secondsBetween(count: () => Promise<number>, wanted: number): Promise<number> {
  const begin = performance.now();
  await node.until(`there are ${wanted}`, async () => (await count()) === wanted);
  return (performance.now() - begin) / 1000;
}

describe("an endpoint that the kernel rejects", () => {
  const bad = service({ name: "bad", clusterIps: ["10.96.0.66"] });
  const slice = (address: string): ApiObject =>
    endpointSlice({ name: "bad-a", service: "bad", endpoints: [endpoint(address), "10.244.2.66"] });
  const subject = /192\.168\.10\.255/;

  it("is counted and logged once with its Service, and does not make the node unhealthy", async () => {
    node.api.apply(bad, slice(broadcast));
    await node.until(
      "the rejection is counted",
      async () => (await rejectedCount("real-server", { reason: "EINVAL" })) === 1,
    );
    await becomesHealthy();
    toldOnce(subject, "bad", 1);
    assert.match(realServersAt("10.96.0.66:80").join(), /^[^,]*-r 10\.244\.2\.66:8080[^,]*$/);
    const events = (): readonly string[] =>
      node.events().filter((text) => subject.test(text) && / Service bad: /.test(text));
    await node.until("an Event names it", () => events().length === 1);
  });

  it("does not delay changes of other objects", changesElsewhereGoThrough);

  it("is retried without another log line", async () => {
    const failures = (): Promise<number> =>
      node.metric("kube_ipvs_kernel_changes_total", {
        kind: "real-server-create",
        result: "failure",
      });
    const before = await failures();
    await node.until("it was retried", async () => (await failures()) > before);
    toldOnce(subject, "bad", 1);
    assert.equal(await node.healthStatus(), 200);
  });

  it("is no longer reported after it is corrected: one log line, and the gauge is zero", async () => {
    node.api.apply(slice("10.244.2.67"));
    await node.until("nothing is rejected", async () => (await rejectedCount("real-server")) === 0);
    assert.match(realServersAt("10.96.0.66:80").join(), /-r 10\.244\.2\.67:8080/);
    await node.until("the end is logged", () => linesAbout(subject).length === 2);
    toldOnce(subject, "bad", 2);
    node.api.delete(bad, slice(broadcast));
  });

  it("is no longer reported after its Service is deleted", async () => {
    node.api.apply(bad, slice(broadcast));
    await node.until(
      "the rejection is counted",
      async () => (await rejectedCount("real-server")) === 1,
    );
    node.api.delete(bad, slice(broadcast));
    await node.until("nothing is rejected", async () => (await rejectedCount("real-server")) === 0);
  });
});

interface Injected {
  /** The kind of the rejected object in the metric. */
  readonly kind: "entry" | "address";
  readonly title: string;
  readonly errno: number;
  readonly reason: string;
  readonly address: string;
  readonly port: number;
  /** From linux/netlink.h and linux/netfilter/nfnetlink.h. */
  readonly protocol: number;
  readonly subsystem: number;
  /** Bytes that occur in no other request. */
  readonly content: Uint8Array;
  readonly named: RegExp;
  readonly isThere: () => boolean;
  readonly sourceRange?: string;
  readonly nodePort?: number;
}

const setSubsystem = labRules === "nftables" ? 10 : 6;
const portBytes = [7_777 >> 8, 7_777 & 255] as const;
const nodePort = 30_777;
const nodePortBytes = [nodePort >> 8, nodePort & 255] as const;

function hasEntry(set: string, ipset: string, nft: string): boolean {
  return labRules === "nftables"
    ? shell(`nft list set ip kube-ipvs ${set}`).includes(nft)
    : shell(`ipset list ${set}`).includes(ipset);
}

const injected: readonly Injected[] = [
  {
    ...{ kind: "entry", title: "an entry", errno: 12, reason: "ENOMEM" },
    ...{ address: "10.96.0.77", port: 7_777, protocol: 12, subsystem: setSubsystem },
    // The bytes are the key of the nft element, or IPSET_ATTR_PORT, because other ipsets also contain the address.
    content:
      labRules === "nftables"
        ? Uint8Array.of(10, 96, 0, 77, 6, 0, 0, 0, ...portBytes)
        : Uint8Array.of(6, 0, 4, 0x40, ...portBytes),
    named: /10\.96\.0\.77,tcp:7777/,
    isThere: () => hasEntry("KUBE-CLUSTER-IP", "10.96.0.77,tcp:7777", "10.96.0.77 . tcp . 7777"),
  },
  {
    ...{ kind: "entry", title: "a source range", errno: 16, reason: "EBUSY" },
    ...{ address: "203.0.113.77", port: 7_778, protocol: 12, subsystem: setSubsystem },
    content: Uint8Array.of(198, 51, 100, 0),
    named: /203\.0\.113\.77,tcp:7778,198\.51\.100\.0/,
    // nft prints intervals as bytes. The set has no other entry.
    isThere: () =>
      hasEntry("KUBE-LOAD-BALANCER-SOURCE-CIDR", "203.0.113.77,tcp:7778,198.51", "elements"),
    sourceRange: "198.51.100.0/24",
  },
  {
    ...{ kind: "entry", title: "a node port", errno: 28, reason: "ENOSPC" },
    ...{ address: "10.96.0.76", port: 7_776, protocol: 12, subsystem: setSubsystem },
    // NFTA_DATA_VALUE or IPSET_ATTR_PORT.
    content:
      labRules === "nftables"
        ? Uint8Array.of(6, 0, 1, 0, ...nodePortBytes)
        : Uint8Array.of(6, 0, 4, 0x40, ...nodePortBytes),
    named: new RegExp(`KUBE-NODE-PORT-TCP.*\\b${nodePort}\\b`),
    isThere: () => hasEntry("KUBE-NODE-PORT-TCP", `${nodePort}`, `${nodePort}`),
    nodePort,
  },
  {
    ...{ kind: "address", title: "an address", errno: 22, reason: "EINVAL" },
    ...{ address: "10.96.0.78", port: 80, protocol: 0, subsystem: -1 },
    content: Uint8Array.of(10, 96, 0, 78),
    named: /"10\.96\.0\.78"/,
    isThere: () => shell("ip -o address show kube-ipvs0").includes(" 10.96.0.78/32"),
  },
];

for (const one of injected) {
  const { kind, title, reason, address, port, named, isThere, sourceRange, nodePort, ...fault } =
    one;
  describe(`${title} that the kernel rejects`, () => {
    const name = `refused-${title.split(" ").at(-1)}`;
    const ports = [servicePort({ port, ...(nodePort === undefined ? {} : { nodePort }) })];
    const type = nodePort === undefined ? "ClusterIP" : "NodePort";
    const objects = [
      sourceRange === undefined
        ? service({ name, type, clusterIps: [address], ports })
        : service({
            ...{ name, type: "LoadBalancer", clusterIps: ["10.96.0.79"], ports },
            spec: { loadBalancerSourceRanges: [sourceRange] },
            status: { loadBalancer: { ingress: [{ ip: address }] } },
          }),
      endpointSlice({ name: `${name}-a`, service: name, endpoints: ["10.244.2.77"] }),
    ];

    it("is counted and logged once with its Service, and does not make the node unhealthy", async () => {
      rejectRequests({ ...fault, percent: 100 });
      node.api.apply(...objects);
      await node.until(
        "the rejection is counted",
        async () => (await rejectedCount(kind, { reason })) === 1,
      );
      await becomesHealthy();
      assert.equal(isThere(), false);
      toldOnce(named, name, 1);
    });

    it("does not delay changes of other objects", changesElsewhereGoThrough);

    it("is created as soon as the kernel accepts it", async () => {
      endFaults();
      await node.until("it exists", isThere);
      await node.until("nothing is rejected", async () => (await rejectedCount(kind)) === 0);
      await node.until("its Service is served", () =>
        shell("ipvsadm -Sn").includes(`-a -t ${address}:${port} -r 10.244.2.77:8080 -m -w 1`),
      );
      node.api.delete(...objects);
      await node.until("it goes", () => !isThere());
    });
  });
}

describe("virtual servers that the kernel rejects", () => {
  const address = "10.96.0.82";
  const ports = [servicePort(), servicePort({ name: "admin", port: 8081 })];
  const objects = [
    service({ name: "two-ports", clusterIps: [address], ports }),
    endpointSlice({
      name: "two-ports-a",
      service: "two-ports",
      endpoints: ["10.244.2.82"],
      ports: [slicePort(), slicePort({ name: "admin", port: 9090 })],
    }),
  ];
  const isBound = (): boolean => shell("ip -o address show kube-ipvs0").includes(` ${address}/32`);
  const served = (): number =>
    realServersAt(`${address}:80`).length + realServersAt(`${address}:8081`).length;
  const isServed = (): boolean => isBound() && served() === 2;
  const refusals = (count: number): Promise<number> =>
    node.until(
      `${count} rejected`,
      async () => (await rejectedCount("virtual-server", { reason: "EINVAL" })) === count,
    );

  it("do not affect the address if another port of the Service is served", async () => {
    refuseCreation(address, 8081);
    node.api.apply(...objects);
    await refusals(1);
    assert.deepEqual([isBound(), served()], [true, 1]);
    assert.equal(await node.healthStatus(), 200, node.tail());
    toldOnce(/"TCP 10\.96\.0\.82:/, "two-ports", 1);
    endFaults();
    await node.until("both ports are served", isServed);
  });

  it("unbind their address if none of them exists, because the node itself would answer there", async () => {
    refuseCreation(address);
    shell(`ipvsadm -D -t ${address}:80; ipvsadm -D -t ${address}:8081`);
    // When the Service changes, the program finds that the virtual servers are gone.
    node.api.apply({ ...objects[1], endpoints: [endpoint("10.244.2.83")] } as ApiObject);
    await refusals(2);
    assert.deepEqual([isBound(), served()], [false, 0]);
    assert.equal(await node.healthStatus(), 200, node.tail());
  });

  it("do not delay changes of other objects", changesElsewhereGoThrough);

  it("are created with their address as soon as the kernel accepts them", async () => {
    endFaults();
    await node.until("both ports are served", isServed);
    await refusals(0);
    node.api.delete(...objects);
    await node.until("they go", () => !isBound() && served() === 0);
  });

  it("have no bound address if they were rejected from the beginning", async () => {
    refuseCreation(address);
    node.api.apply(...objects);
    await refusals(2);
    assert.equal(isBound(), false);
    endFaults();
    await node.until("both ports are served", isServed);
    node.api.delete(...objects);
    await node.until("they go", () => !isBound());
  });
});

describe("a rejected removal at the end of a drain", () => {
  /** The generic netlink header of IPVS_CMD_DEL_DEST (linux/ip_vs.h). */
  const removal = { protocol: 16, subsystem: -1, content: Uint8Array.of(7, 1, 0, 0) };
  const objects = [
    service({ name: "draining", clusterIps: ["10.96.0.80"] }),
    endpointSlice({
      name: "draining-a",
      service: "draining",
      endpoints: ["10.244.2.80", "10.244.2.81"],
    }),
  ];
  const remaining = endpointSlice({
    name: "draining-a",
    service: "draining",
    endpoints: ["10.244.2.81"],
  });
  const leaving = (): readonly string[] =>
    realServersAt("10.96.0.80:80").filter((line) => line.includes("-r 10.244.2.80:8080 "));
  const refusals = (): Promise<number> =>
    node.metric("kube_ipvs_kernel_changes_total", {
      kind: "real-server-remove",
      result: "failure",
    });

  it("is counted and logged once with its Service, and retried with back-off", async () => {
    node.api.apply(...objects);
    await node.until("it is served", () => leaving().length === 1);
    rejectRequests({ ...removal, errno: 16, percent: 100 });
    node.api.apply(remaining);
    await node.until(
      "the rejection is counted",
      async () => (await rejectedCount("real-server", { reason: "EBUSY" })) === 1,
    );
    await node.until("it was tried three times", async () => (await refusals()) === 3);
    const seconds = await secondsBetween(refusals, 4);
    assert.ok(seconds > 2, `retried after ${seconds} s`);
    assert.match(leaving().join(), / -w 0$/);
    assert.equal(await node.healthStatus(), 200, node.tail());
    toldOnce(/10\.244\.2\.80:8080.*EBUSY/, "draining", 1);
  });

  it("succeeds with one log line as soon as the kernel accepts it", async () => {
    endFaults();
    await node.until("it is gone", () => leaving().length === 0);
    await node.until("nothing is rejected", async () => (await rejectedCount("real-server")) === 0);
    toldOnce(/10\.244\.2\.80:8080.*EBUSY/, "draining", 2);
    node.api.delete(...objects);
  });
});

describe("a chain that the kernel rejects", () => {
  const chain = "KUBE-LOAD-BALANCER";
  const objects = [
    service({
      name: "balanced",
      type: "LoadBalancer",
      clusterIps: ["10.96.0.79"],
      status: { loadBalancer: { ingress: [{ ip: "203.0.113.79" }] } },
    }),
    endpointSlice({ name: "balanced-a", service: "balanced", endpoints: ["10.244.2.79"] }),
  ];

  const isWritten = (): boolean =>
    labRules === "nftables"
      ? shell("nft list chain ip kube-ipvs nat-KUBE-SERVICES").includes(` jump nat-${chain} `)
      : new RegExp(`^-A KUBE-SERVICES .*-j ${chain}$`, "m").test(
          shell("iptables -t nat -S KUBE-SERVICES"),
        );

  it("is counted and logged once, its Service is served by IPVS, and the node is healthy", async () => {
    // A rule's message contains its text in iptables format.
    const content = Buffer.from(`-j ${chain}`);
    if (labRules === "nftables") {
      rejectRequests({ protocol: 12, subsystem: 10, errno: 28, percent: 100, content });
    } else rejectInput(`^-A KUBE-SERVICES.*${chain}`);
    node.api.apply(...objects);
    await node.until("the rejection is counted", async () => (await rejectedCount("chain")) >= 1);
    await becomesHealthy();
    await node.until("its Service is served", () =>
      shell("ipvsadm -Sn").includes("-a -t 203.0.113.79:80 -r 10.244.2.79:8080 -m -w 1"),
    );
    const named = node
      .lines()
      .filter((line) => /refused by the test|chain.*ENOSPC/.test(JSON.stringify(line)));
    assert.equal(named.length, 1, node.tail());
    assert.equal(isWritten(), false);
  });

  it("does not delay changes of other objects", changesElsewhereGoThrough);

  it("is created as soon as the kernel accepts it", async () => {
    if (labRules === "nftables") endFaults();
    else rejectNothing();
    await node.until("the rule exists", isWritten);
    await node.until("nothing is rejected", async () => (await rejectedCount("chain")) === 0);
  });
});

/**
 * Tests event orders that random walks do not cover: batches of changes that arrive after the program was paused or
 * killed, and changes of settings. The final state must equal that of a fresh start.
 */
import assert from "node:assert/strict";
import { createSocket, type Socket } from "node:dgram";
import { once } from "node:events";
import { describe, it } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import type { VirtualAddresses } from "../../src/state/dummy-link.ts";
import { differenceText, type KernelState } from "../golden/kernel-state.ts";
import { nodeSetUp } from "../golden/node-set-up.ts";
import { observeKernel } from "../golden/observe.ts";
import { ClusterNode, type NodeSettings } from "../support/cluster-node.ts";
import type { NamedObject } from "../support/memory-source.ts";
import { shell, withNetworkNamespace } from "../support/netns/network-namespace.ts";
import {
  type ApiObject,
  endpointSlice,
  service,
  servicePort,
  slicePort,
} from "../support/objects.ts";
import { patienceMs } from "../support/patience.ts";
import { ObjectBook } from "../support/random-walk/object-book.ts";
import { planFromScratch, portRangeMarks } from "../support/random-walk/plan-from-scratch.ts";
import { startSettings } from "../support/random-walk/walk-step.ts";
import { differencesIn } from "../support/random-walk/walker.ts";

const soon = { verificationPeriod: "1s", ruleCheckPeriod: "1s", portRangeMarks };

type OwnSettings = Required<NodeSettings>["kubeIpvs"] & {
  readonly virtualAddresses?: VirtualAddresses;
};

/** A node with its objects, and manual changes to it. */
class Stage {
  readonly #book = new ObjectBook();
  readonly #commands: string[] = [];
  readonly node: ClusterNode;

  #virtualAddresses: VirtualAddresses = "addresses";

  private constructor(node: ClusterNode, objects: readonly ApiObject[], kubeIpvs: OwnSettings) {
    this.node = node;
    this.#note("apply", objects);
    this.configure(kubeIpvs);
  }

  static async build(objects: readonly ApiObject[], kubeIpvs: OwnSettings): Promise<Stage> {
    return new Stage(await ClusterNode.build(objects), objects, kubeIpvs);
  }

  configure(kubeIpvs: OwnSettings): void {
    this.#virtualAddresses = kubeIpvs.virtualAddresses ?? "addresses";
    this.node.configure({ kubeIpvs: { ...soon, ...kubeIpvs } });
  }

  apply(...objects: readonly ApiObject[]): void {
    this.#note("apply", objects);
    this.node.api.apply(...objects);
  }

  delete(...objects: readonly ApiObject[]): void {
    this.#note("delete", objects);
    this.node.api.delete(...objects);
  }

  /** Pauses the program for a moment, so that it reads everything from the API server in one batch. */
  async inOneBatch(work: () => void): Promise<void> {
    this.node.program.kill("SIGSTOP");
    work();
    await new Promise((resolve) => setImmediate(resolve));
    this.node.program.kill("SIGCONT");
  }

  run(command: string): void {
    shell(command);
    this.#commands.push(command);
  }

  async restart(signal: "SIGTERM" | "SIGKILL", away: () => void = () => {}): Promise<void> {
    await this.node.stop(signal);
    away();
    await this.node.start();
  }

  /** Waits until the kernel state equals that of a fresh start. Otherwise fails with the difference. */
  async comesToPlan(what: string): Promise<void> {
    const deadlineMs = performance.now() + patienceMs;
    for (;;) {
      const checkBeganMs = performance.now();
      const differences = differencesIn(await this.#expected(), await state());
      if (differences.length === 0) return;
      const text = differences.map(differenceText).join("\n");
      assert.ok(checkBeganMs < deadlineMs, `${what}\n${text}\n${this.node.tail()}`);
      await pause(performance.now() - checkBeganMs);
    }
  }

  #expected(): Promise<KernelState> {
    const held = this.node.holders();
    return planFromScratch({
      objects: this.#book.all(),
      settings: {
        ...startSettings,
        tunnelForwarding: false,
        virtualAddresses: this.#virtualAddresses,
      },
      commands: this.#commands,
      held,
    });
  }

  #note(kind: "apply" | "delete", objects: readonly ApiObject[]): void {
    for (const object of objects) this.#book[kind](object as unknown as NamedObject);
  }
}

/** The kinds of state that the fake kernel also has. */
async function state(): Promise<KernelState> {
  const { ipvs, ipset, iptables, ip6tables, addresses } = await observeKernel([]);
  return { ipvs, ipset, iptables, ip6tables, addresses } as KernelState;
}

/** Addresses with a local route of kube-ipvs. */
function routes(): readonly string[] {
  const lines = shell("ip route show table local proto 75").split("\n").filter(Boolean);
  return lines.map((line) => line.split(" ")[1] ?? "");
}

async function onStage(
  objects: readonly ApiObject[],
  kubeIpvs: OwnSettings,
  body: (stage: Stage) => Promise<void>,
): Promise<void> {
  await withNetworkNamespace("orders", nodeSetUp, async () => {
    const stage = await Stage.build(objects, kubeIpvs);
    try {
      await body(stage);
    } finally {
      await stage.node.close();
    }
  });
}

const nodePorts = [servicePort({ nodePort: 30_080 })];
const young = { creationTimestamp: "2026-03-01T00:00:00Z" };

describe("a Service that replaces another one in the same batch", () => {
  it("takes over the cluster IP and node port, with its own endpoints and port names", async () => {
    const old = [service({ type: "NodePort", ports: nodePorts }), endpointSlice()];
    await onStage(old, {}, async (stage) => {
      await stage.node.start();
      await stage.comesToPlan("at startup");
      const [port, endpoints] = [{ name: "new" }, ["10.244.2.9"]];
      const ports = [servicePort({ ...port, nodePort: 30_080 })];
      const next = [
        service({ name: "next", type: "NodePort", ports, metadata: young }),
        endpointSlice({ service: "next", ports: [slicePort(port)], endpoints }),
      ];
      await stage.inOneBatch(() => {
        stage.delete(...old);
        stage.apply(...next);
      });
      await stage.comesToPlan("after the batch");
      await stage.restart("SIGKILL", () => {
        stage.delete(...next);
        stage.apply(...old);
      });
      await stage.comesToPlan("after the same batch while the program was stopped");
      assert.equal(await stage.node.metric("kube_ipvs_frontend_conflicts"), 0);
    });
  });

  it("takes over the UDP flows of clients, even if the program is killed", async () => {
    const dns = { name: "dns", protocol: "UDP" };
    const ports = [servicePort({ ...dns, port: 53 })];
    const slice = (owner: string, ...endpoints: readonly string[]): ApiObject =>
      endpointSlice({ service: owner, endpoints, ports: [slicePort({ ...dns, port: 5353 })] });
    const [here, there] = ["192.168.10.11", "172.16.5.11"];
    await onStage([service({ ports }), slice("web", here)], {}, async (stage) => {
      await stage.node.start();
      const pods = [await answering(here), await answering(there)];
      const client = await Client.open();
      try {
        const answers = (name: string): Promise<unknown> =>
          stage.node.until(`${name} answers`, async () => (await client.ask()) === name);
        await answers(here);
        await stage.inOneBatch(() => {
          stage.delete(service(), slice("web", here));
          stage.apply(service({ name: "next", ports }), slice("next", there));
        });
        await answers(there);
        stage.apply(slice("next"));
        await answers("nobody");
        await stage.restart("SIGKILL", () => stage.apply(slice("next", here)));
        await answers(here);
        await stage.restart("SIGKILL", () => {
          stage.delete(service({ name: "next" }));
          stage.apply(service({ ports }), slice("web", there));
        });
        await answers(there);
        await stage.comesToPlan("at the end");
      } finally {
        client.close();
        for (const pod of pods) pod.close();
      }
    });
  });
});

describe("virtual IPs as local routes", () => {
  const asRoutes = { virtualAddresses: "routes" } as const;
  const web = (clusterIp: string, ...externalIPs: readonly string[]): ApiObject =>
    service({
      type: "NodePort",
      clusterIps: [clusterIp, "fd00:96::10"],
      ports: nodePorts,
      spec: { externalIPs },
    });

  it("follow node addresses, manual damage, kills, and a change to addresses and back", async () => {
    const objects = [web("10.96.0.10", "192.168.10.12", "203.0.113.1"), endpointSlice()];
    await onStage(objects, asRoutes, async (stage) => {
      await stage.node.start();
      await stage.comesToPlan("at startup");
      assert.ok(routes().includes("203.0.113.1"));
      stage.run("ip address add 192.168.10.12/24 dev eth0");
      await stage.comesToPlan("with an external IP that the node got");
      stage.run("ip address del 192.168.10.12/24 dev eth0");
      await stage.comesToPlan("with an external IP that the node lost");
      shell("ip route del local 203.0.113.1 dev lo table local proto 75; ip link del kube-ipvs0");
      await stage.comesToPlan("after damage");
      await stage.restart("SIGKILL", () => stage.apply(web("10.96.0.11", "203.0.113.1")));
      await stage.comesToPlan("after a change while the program was stopped");
      await stage.restart("SIGTERM", () => {
        stage.configure({});
        stage.apply(web("10.96.0.12", "203.0.113.2"));
      });
      await stage.node.until("no routes are left", () => routes().length === 0);
      await stage.comesToPlan("as addresses");
      await stage.restart("SIGKILL", () => stage.configure(asRoutes));
      const isBound = (): boolean => shell("ip -o -4 address show dev kube-ipvs0") !== "";
      await stage.node.until("no addresses are left", () => !isBound());
      await stage.comesToPlan("as routes again");
      await stage.node.stop("SIGTERM");
      await stage.node.cleanUp();
      assert.deepEqual(routes(), []);
    });
  });
});

describe("foreignVirtualServers: delete, reloaded", () => {
  it("gives third-party virtual servers to Services until the setting is `keep` again", async () => {
    const claim = (address: string): ApiObject => service({ spec: { externalIPs: [address] } });
    const remove = { foreignVirtualServers: "delete" };
    await onStage([claim("203.0.113.1"), endpointSlice()], {}, async (stage) => {
      const { node } = stage;
      const has = (text: string): boolean => shell("ipvsadm -Sn").includes(text);
      const reloads = (): number =>
        node.lines().filter(({ msg }) => msg === "Configuration file reloaded").length;
      const make = (address: string): string => shell(`ipvsadm -A -t ${address}:80 -s wlc`);
      make("203.0.113.1");
      await node.start();
      assert.ok(has("-A -t 203.0.113.1:80 -s wlc"));
      stage.configure(remove);
      await stage.comesToPlan("with delete");
      stage.configure({});
      await node.until("it is read again", () => reloads() === 2);
      make("203.0.113.2");
      stage.apply(claim("203.0.113.2"));
      await node.until("the other one is not served", () => !has("203.0.113.1:80"));
      assert.ok(has("-A -t 203.0.113.2:80 -s wlc"), node.tail());
      stage.configure(remove);
      await stage.comesToPlan("with delete again");
    });
  });
});

/** A pod at a node address that answers with that address. */
async function answering(address: string): Promise<Socket> {
  const socket = createSocket("udp4");
  socket.on("message", (_text, { address: to, port }) => socket.send(address, port, to));
  socket.bind(5353, address);
  await once(socket, "listening");
  return socket;
}

/** A client on the node that keeps its source port. */
class Client {
  readonly #socket: Socket;
  #answer = "";

  private constructor(socket: Socket) {
    this.#socket = socket;
    // ICMP "port unreachable" arrives as an error.
    socket.on("error", () => {});
    socket.on("message", (text) => {
      this.#answer = text.toString();
    });
  }

  static async open(): Promise<Client> {
    const socket = createSocket("udp4");
    socket.bind(5555);
    await once(socket, "listening");
    return new Client(socket);
  }

  /** Sends a datagram. Returns the name of the pod that answers within half a second, or "nobody" if none does. */
  async ask(): Promise<string> {
    this.#answer = "nobody";
    this.#socket.send("?", 53, "10.96.0.10", () => {});
    for (let turn = 0; turn < 10 && this.#answer === "nobody"; turn += 1) await pause(50);
    return this.#answer;
  }

  close(): void {
    this.#socket.close();
  }
}

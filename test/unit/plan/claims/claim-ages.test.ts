/**
 * Tests that the age of a claim, not of the Service, determines the owner of an external IP, even after restarts and
 * reboots.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ServiceRecord } from "../../../../src/api/objects.ts";
import type { ServiceName } from "../../../../src/base/service-name.ts";
import {
  ClaimAges,
  noRecordedClaims,
  type RecordedClaims,
} from "../../../../src/plan/claims/claim-ages.ts";
import type { ClaimMemory } from "../../../../src/plan/claims/claim-memory.ts";
import { type NodeSocket, PortAdmission } from "../../../../src/plan/claims/port-admission.ts";
import { ClusterPlan } from "../../../../src/plan/cluster-plan.ts";
import { TablesPlan } from "../../../../src/plan/iptables/tables-plan.ts";
import { type ServerKey, toServerKey } from "../../../../src/state/virtual-server.ts";
import { iptablesOptions } from "../../../support/iptables-records.ts";
import { ip, planOptions, portRecord, serviceRecord } from "../../../support/records.ts";

const shared = ip("203.0.113.9");
const key = toServerKey(`TCP ${shared}:80`);
const nodeAddress = ip("192.168.10.11");

function service(
  name: ServiceName,
  createdAtSeconds: number,
  externalIps = [shared],
  port = 80,
): ServiceRecord {
  const clusterIps = [ip(`10.96.0.${name.length}`)];
  return serviceRecord({
    name,
    createdAtSeconds,
    clusterIps,
    externalIps,
    ports: [portRecord({ port })],
  });
}

/** A node with its record. Each start simulates a new process. */
abstract class Node {
  record: RecordedClaims = noRecordedClaims;
  nowSeconds = 1_000;
  sockets: readonly NodeSocket[] = [];
  #memory: ClaimMemory | undefined;

  protected abstract begin(claims: ClaimMemory): void;
  protected abstract plan(): void;
  abstract put(service: ServiceRecord, isGone?: boolean): void;
  abstract owner(key: ServerKey): string | undefined;

  start(): this {
    const ages = new ClaimAges(this.record, () => this.nowSeconds);
    const admission = new PortAdmission(ages, () => this.sockets);
    this.#memory = { ages, admission, keep() {} };
    this.begin(this.#memory);
    return this;
  }

  sync(): this {
    this.nowSeconds += 10;
    this.plan();
    this.record = this.#memory?.ages.takeRecord() ?? this.record;
    return this;
  }
}

class IpvsNode extends Node {
  #plan = new ClusterPlan({ startedAtMs: 0, onPlan() {} });
  protected override begin(claims: ClaimMemory): void {
    this.#plan = new ClusterPlan({ startedAtMs: 0, onPlan() {}, claims });
  }
  protected override plan(): void {
    for (const _ of this.#plan.update(planOptions()));
    this.#plan.takeGoal();
  }
  override put(one: ServiceRecord, isGone = false): void {
    this.#plan.tracker.noteService(one, isGone ? undefined : one);
  }
  override owner(of: ServerKey): string | undefined {
    return this.#plan.desired.claimantOf(of)?.split(":")[0];
  }
}

class TablesNode extends Node {
  #plan = new TablesPlan({ startedAtMs: 0, onPlan() {} });
  protected override begin(claims: ClaimMemory): void {
    this.#plan = new TablesPlan({ startedAtMs: 0, onPlan() {}, claims });
  }
  protected override plan(): void {
    for (const _ of this.#plan.update(iptablesOptions()));
    this.#plan.desired.claims.settle();
  }
  override put(one: ServiceRecord, isGone = false): void {
    this.#plan.tracker.noteService(one, isGone ? undefined : one);
  }
  override owner(of: ServerKey): string | undefined {
    const [address, port] = of.slice("TCP ".length).split(":");
    const rules = this.#plan
      .ruleSet("IPv4")
      .chains.flatMap((chain) =>
        chain.rules.filter(
          ({ matches }) =>
            matches.some((one) => one.kind === "destination" && one.cidr === `${address}/32`) &&
            matches.some((one) => one.kind === "port" && one.destination === Number(port)),
        ),
      );
    const text = rules.flatMap(({ matches }) =>
      matches.flatMap((one) => (one.kind === "comment" ? [one.text] : [])),
    )[0];
    return text?.split(/[: ]/)[0];
  }
}

for (const [mode, open] of [
  ["IPVS", () => new IpvsNode()],
  ["iptables", () => new TablesNode()],
] as const) {
  describe(`claims of an external IP in ${mode} mode`, () => {
    const victim = service("victim/web", 500);
    const attacker = service("a/old", 100);

    it("belong to the first claim after a restart and a boot, even if the other Service is older", () => {
      const node = open().start();
      node.put(victim);
      node.put(service("a/old", 100, []));
      node.sync();
      node.put(attacker);
      assert.equal(node.sync().owner(key), "victim/web");
      node.start();
      node.put(attacker);
      node.put(victim);
      assert.equal(node.sync().owner(key), "victim/web");
    });

    it("belong to the first claim if the other one arrived while the program was stopped", () => {
      const node = open().start();
      node.put(victim);
      node.sync();
      node.start();
      node.put(attacker);
      node.put(victim);
      assert.equal(node.sync().owner(key), "victim/web");
    });

    it("belong to the oldest remaining claim, not to the oldest Service", () => {
      const node = open().start();
      node.put(victim);
      node.sync();
      node.put(service("b/second", 900));
      node.sync();
      node.put(attacker);
      node.sync();
      node.put(victim, true);
      assert.equal(node.sync().owner(key), "b/second");
    });

    for (const [name, sinceSeconds] of [
      ["within one second", 0.005],
      ["after the clock was set back", -3_600],
    ] as const) {
      it(`belong to the first of two claims that arrive ${name}`, () => {
        const node = open().start();
        node.put(victim);
        node.sync();
        node.nowSeconds += sinceSeconds - 10;
        node.put(service("b/second", 900));
        node.sync();
        node.nowSeconds += sinceSeconds - 10;
        node.put(attacker);
        node.sync();
        node.put(victim, true);
        assert.equal(node.sync().owner(key), "b/second");
      });
    }

    it("are decided by the age of Services on a node without a record", () => {
      const node = open().start();
      node.put(victim);
      node.put(attacker);
      assert.equal(node.sync().owner(key), "a/old");
    });
  });

  describe(`the node's own addresses in ${mode} mode`, () => {
    const listening = (
      port: number,
      address = "0.0.0.0",
      protocol: "TCP" | "UDP" = "TCP",
    ): NodeSocket => ({
      protocol,
      address: ip(address),
      port,
    });
    const claim = (port: number): ServiceRecord => service("a/web", 1, [nodeAddress], port);
    const at = (port: number): ServerKey => toServerKey(`TCP ${nodeAddress}:${port}`);

    for (const [port, socket] of [
      [22, listening(22)],
      [10_250, listening(10_250, "::")],
      [2_379, listening(2_379, nodeAddress)],
    ] as const) {
      it(`are not served at port ${port} if a process listens at ${socket.address}`, () => {
        const node = open().start();
        node.sockets = [socket];
        node.put(claim(port));
        node.put(service("b/x", 1, [nodeAddress], 8_443));
        assert.equal(node.sync().owner(at(port)), undefined);
      });
    }

    for (const [name, sockets] of [
      ["nobody listens", []],
      ["a process listens on loopback only", [listening(80, "127.0.0.1")]],
      ["a process listens on another protocol", [listening(80, "0.0.0.0", "UDP")]],
    ] as const) {
      it(`are served at port 80 if ${name}`, () => {
        const node = open().start();
        node.sockets = sockets;
        node.put(claim(80));
        assert.equal(node.sync().owner(at(80)), "a/web");
      });
    }

    it("stay with an admitted claim if a process listens later, also after a restart", () => {
      const node = open().start();
      node.put(claim(8_443));
      node.sync();
      node.sockets = [listening(8_443)];
      node.put(claim(8_443));
      assert.equal(node.sync().owner(at(8_443)), "a/web");
      node.start();
      node.put(claim(8_443));
      assert.equal(node.sync().owner(at(8_443)), "a/web");
    });

    it("stay unserved after a restart even if the process ended, until the Service changes", () => {
      const node = open().start();
      node.sockets = [listening(8_443)];
      node.put(claim(8_443));
      node.sync();
      node.sockets = [];
      node.start();
      node.put(claim(8_443));
      assert.equal(node.sync().owner(at(8_443)), undefined);
      node.put(claim(8_443));
      assert.equal(node.sync().owner(at(8_443)), "a/web");
    });
  });
}

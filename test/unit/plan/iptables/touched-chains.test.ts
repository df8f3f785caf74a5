/** Tests that a change touches only the chains that it concerns. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ServiceRecord } from "../../../../src/api/objects.ts";
import { endpointChain, servicePortChains } from "../../../../src/plan/iptables/chain-names.ts";
import { TablesPlan } from "../../../../src/plan/iptables/tables-plan.ts";
import { type Chain, chainKey } from "../../../../src/state/rule.ts";
import { iptablesOptions } from "../../../support/iptables-records.ts";
import { endpointRecord, ip, serviceRecord, sliceRecord } from "../../../support/records.ts";

const options = iptablesOptions();
const other = serviceRecord({ name: "default/b", clusterIps: [ip("10.96.0.11")] });
const owner = { service: "default/a", portName: "http", protocol: "TCP" } as const;
const chains = servicePortChains(owner);

let known: ReadonlyMap<string, Chain> = new Map();

/**
 * The chains that an update adds, replaces with a new object, or removes. The plan must list the same differences from
 * the previous plan.
 */
function touched(plan: TablesPlan): readonly string[] {
  const previous = plan.isPlanned ? plan.ruleSet("IPv4") : undefined;
  for (const _ of plan.update(options));
  const before = known;
  const ruleSet = plan.ruleSet("IPv4");
  known = new Map(ruleSet.chains.map((chain) => [keyOf(chain), chain]));
  const found = [
    ...[...known].filter(([key, chain]) => before.get(key) !== chain).map(([key]) => `+ ${key}`),
    ...[...before.keys()].filter((key) => !known.has(key)).map((key) => `- ${key}`),
  ].sort();
  if (previous !== undefined && ruleSet !== previous) {
    const { since, chains = [], gone = [] } = ruleSet.changes ?? {};
    assert.equal(since, previous.revision);
    const listed = [
      ...chains.map((chain) => `+ ${keyOf(chain)}`),
      ...gone.map((key) => `- ${key}`),
    ];
    assert.deepEqual(listed.sort(), found);
  }
  return found;
}

function keyOf({ table, name }: Chain): string {
  return chainKey(table, name);
}

function endpointOf(address: string): string {
  return `nat ${endpointChain(owner, `${address}:8080`)}`;
}

/** Two Services with two endpoints each. Their chains have already been read. */
function settled(): TablesPlan {
  const plan = new TablesPlan({ startedAtMs: 0, onPlan: () => {} });
  const endpoints = [endpointRecord("10.244.1.10"), endpointRecord("10.244.2.11")];
  plan.tracker.noteService(undefined, serviceRecord());
  plan.tracker.noteService(undefined, other);
  plan.tracker.noteSlice(undefined, sliceRecord(endpoints));
  plan.tracker.noteSlice(
    undefined,
    sliceRecord(endpoints, { name: "default/b-1", service: "default/b" }),
  );
  touched(plan);
  return plan;
}

describe("a change touches", () => {
  it("no chain if nothing changes", () => assert.deepEqual(touched(settled()), []));

  it("the chain that chooses an endpoint, and the chain of the endpoint, if an endpoint is added", () => {
    const plan = settled();
    const addresses = ["10.244.1.10", "10.244.2.11", "10.244.2.12"];
    plan.tracker.noteSlice(
      undefined,
      sliceRecord(addresses.map((address) => endpointRecord(address))),
    );
    assert.deepEqual(
      touched(plan),
      [`+ nat ${chains.cluster}`, `+ ${endpointOf("10.244.2.12")}`].sort(),
    );
  });

  it("the chains of the service port, and those that reject or jump to it, if the last endpoint is removed", () => {
    const plan = settled();
    plan.tracker.noteSlice(undefined, sliceRecord([]));
    assert.deepEqual(
      touched(plan),
      [
        `- nat ${chains.cluster}`,
        `- ${endpointOf("10.244.1.10")}`,
        `- ${endpointOf("10.244.2.11")}`,
        "+ filter KUBE-SERVICES",
        "+ nat KUBE-SERVICES",
      ].sort(),
    );
  });

  it("the chains of a Service, and the chain that jumps to them, if the Service is removed", () => {
    const plan = settled();
    plan.tracker.noteService(serviceRecord(), undefined);
    assert.deepEqual(
      touched(plan),
      [
        `- nat ${chains.cluster}`,
        `- ${endpointOf("10.244.1.10")}`,
        `- ${endpointOf("10.244.2.11")}`,
        "+ nat KUBE-SERVICES",
      ].sort(),
    );
  });
});

it("the chains in which rules get a new position, if a Service is recreated", () => {
  const plan = settled();
  const again = serviceRecord({ createdAtSeconds: 1_000 });
  plan.tracker.noteService(serviceRecord(), again);
  assert.deepEqual(touched(plan), ["+ nat KUBE-SERVICES"]);
});

describe("an external IP that is another Service's cluster IP", () => {
  it("is below it in KUBE-SERVICES, whichever Service is older", () => {
    const plan = settled();
    const thief: ServiceRecord = serviceRecord({
      name: "default/0",
      clusterIps: [ip("10.96.0.12")],
      externalIps: [ip("10.96.0.11")],
    });
    plan.tracker.noteService(undefined, thief);
    plan.tracker.noteSlice(
      undefined,
      sliceRecord([endpointRecord("10.244.6.6")], { name: "default/0-1", service: "default/0" }),
    );
    touched(plan);
    const services = plan.ruleSet("IPv4").chains.find(({ name }) => name === "KUBE-SERVICES");
    const leading = (services?.rules ?? []).filter(({ matches }) =>
      matches.some((match) => match.kind === "destination" && match.cidr === "10.96.0.11/32"),
    );
    const victim = servicePortChains({ ...owner, service: "default/b" });
    assert.deepEqual(leading[0]?.target, { kind: "jump", chain: victim.cluster });
    assert.equal(leading.length, 1, "and not below it, either");
  });
});

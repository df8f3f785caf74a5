/**
 * API objects with arbitrary values in any field, passed through decoding and planning to the text and bytes for the
 * kernel.
 */

import assert from "node:assert/strict";
import { decodeObject, type RecordOf } from "../../../src/api/decode/decode-object.ts";
import { TextPool } from "../../../src/api/decode/flat-text.ts";
import { refusalReasons } from "../../../src/api/refusals.ts";
import type { Refusal, ResourceKind } from "../../../src/api/source.ts";
import { familyOf, parseIpAddress } from "../../../src/base/ip.ts";
import { parseJson } from "../../../src/base/parse-json.ts";
import { entryValues } from "../../../src/kernel/ipset/entry.ts";
import { renderRestoreInput } from "../../../src/kernel/iptables/restore-input.ts";
import { DesiredState } from "../../../src/plan/desired-state.ts";
import { planRules } from "../../../src/plan/rules.ts";
import { setsFor } from "../../../src/plan/sets.ts";
import { planService } from "../../support/plan-at-once.ts";
import { endpointRecord, planOptions, serviceRecord, sliceRecord } from "../../support/records.ts";
import { readCorpusTexts } from "../corpus.ts";
import { largeServices, largeSlices } from "../large-objects.ts";
import { mutatedTrees } from "../mutations.ts";
import type { FuzzTarget, Verdict } from "../target.ts";

const options = planOptions();
const families = ["IPv4", "IPv6"] as const;

function targetOf<Kind extends ResourceKind>(
  name: Kind,
  check: (record: RecordOf[Kind]) => void,
  /** Only tried unmodified, because mutations would take too long. */
  large: readonly unknown[] = [],
): FuzzTarget {
  const kept = readCorpusTexts(name).map((text) => parseJson(text));
  return {
    name,
    kept: [...kept, ...large],
    isDecoder: false,
    inputs: mutatedTrees(kept),
    run: (object) => {
      const record = decoded(name, object);
      if (record === undefined) return "refused";
      check(record);
      return "taken" satisfies Verdict;
    },
  };
}

/** Decodes an object. Rejections must have known reasons, each in one printable line. */
function decoded<Kind extends ResourceKind>(
  kind: Kind,
  object: unknown,
): RecordOf[Kind] | undefined {
  const refuse = ({ reason, message, subject }: Refusal): void => {
    assert.ok(reason in refusalReasons, reason);
    assert.doesNotMatch(message + subject, /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u);
    assert.ok(message.length < 800, `a message of ${message.length} characters`);
  };
  return decodeObject(kind, object, { refuse, texts: new TextPool() })?.record;
}

/** Plans a Service with these endpoints and checks everything that would be sent to the kernel. */
function checkPlan(
  service: RecordOf["services"],
  slices: readonly RecordOf["endpointslices"][],
): void {
  const desired = new DesiredState();
  for (const plan of planService(service.name, service, slices, options)) {
    desired.replace(plan.service, plan.family, plan.servicePorts);
  }
  for (const key of desired.virtualServerKeys()) {
    const planned = desired.virtualServer(key);
    checkPlace(planned?.virtualServer);
    for (const server of planned?.realServers ?? []) checkPlace(server);
  }
  for (const address of desired.addresses()) assert.equal(parseIpAddress(address), address);
  for (const family of families) checkFamily(desired, family);
}

function checkPlace(place: { readonly address: string; readonly port: number } | undefined): void {
  assert.ok(place !== undefined && parseIpAddress(place.address) === place.address);
  assert.ok(Number.isInteger(place.port) && place.port >= 1 && place.port <= 65_535);
}

function checkFamily(desired: DesiredState, family: (typeof families)[number]): void {
  for (const { name, type } of setsFor(family)) {
    for (const entry of desired.entries(name)) entryValues(type, entry);
  }
  const rules = planRules({
    family,
    localDetector: options.families.get(family)?.localDetector,
    masqueradeAll: false,
    masqueradeMark: 0x4000,
    filledSets: desired.filledSets(family),
    deniedToNode: desired.deniedToNode(family),
  });
  for (const { address } of desired.deniedToNode(family)) assert.equal(familyOf(address), family);
  const changes = rules.chains.map((chain) => ({ kind: "chain-write", chain }) as const);
  checkRestoreText(renderRestoreInput(family, changes));
}

const restoreLine = /^(?:\*(?:nat|filter)|COMMIT|:KUBE-[A-Z-]+ - \[0:0\]|-A KUBE-[A-Z-]+ [ -~]+)$/;

/** Each line must be an expected line in kube-ipvs's chains. This shows that no object text became a separate line. */
function checkRestoreText(text: string): void {
  for (const line of text.trimEnd().split("\n")) assert.match(line, restoreLine);
}

const slice = sliceRecord([endpointRecord("10.244.2.11")]);

export const targets: readonly FuzzTarget[] = [
  targetOf(
    "services",
    (service) => checkPlan(service, [{ ...slice, service: service.name }]),
    largeServices,
  ),
  targetOf(
    "endpointslices",
    (one) => checkPlan(serviceRecord({ name: one.service }), [one]),
    largeSlices,
  ),
  targetOf("nodes", ({ addresses, name }) => {
    for (const address of addresses) assert.equal(parseIpAddress(address), address);
    assert.doesNotMatch(name, /[\p{Cc}\p{Cf}]/u);
  }),
];

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { NodeRecord } from "../../../../src/api/objects.ts";
import type { IpFamily } from "../../../../src/base/ip.ts";
import { checkFamilies, primaryFamily } from "../../../../src/daemon/node/family-check.ts";
import { cidr, ip } from "../../../support/records.ts";
import { type FlagInput, load } from "../../config/loading.ts";

const node = (addresses: readonly string[], podCidrs: readonly string[] = []): NodeRecord => ({
  name: "node-1",
  addresses: addresses.map(ip),
  podCidrs: podCidrs.map(cidr),
  isEligible: true,
});

const both: readonly IpFamily[] = ["IPv4", "IPv6"];
const v4 = node(["192.168.10.11"]);

interface Case {
  readonly name: string;
  readonly flags: FlagInput;
  readonly families?: readonly IpFamily[];
  readonly node?: NodeRecord;
  /** The beginning of each reason. `!` marks a fatal one. */
  readonly want: readonly string[];
}

const cases: readonly Case[] = [
  { name: "nothing to report", flags: {}, want: [] },
  {
    name: "a primary family that does not work here",
    flags: {},
    families: ["IPv6"],
    want: ["!the node's primary IP family, IPv4, is not supported on this node"],
  },
  {
    name: "bindAddress decides the primary family",
    flags: { "bind-address": "fd00::1" },
    families: ["IPv4"],
    want: ["!the node's primary IP family, IPv6, is not supported on this node"],
  },
  {
    name: "only cluster CIDRs of the other family, on a dual-stack node",
    flags: { "cluster-cidr": "fd00::/8" },
    want: ["clusterCIDR has no network of the node's primary IP family, IPv4"],
  },
  {
    name: "the same on a single-stack node",
    flags: { "cluster-cidr": "fd00::/8" },
    families: ["IPv4"],
    want: ["!clusterCIDR has no network of the node's primary IP family, IPv4"],
  },
  { name: "one of each family", flags: { "cluster-cidr": "fd00::/8,10.0.0.0/8" }, want: [] },
  {
    name: "only pod CIDRs of the other family",
    flags: {},
    node: node(["192.168.10.11"], ["fd00:1::/64"]),
    want: ["the podCIDRs field of the Node has no network of the node's primary IP family, IPv4"],
  },
  {
    name: "the same in mode NodeCIDR",
    flags: { "detect-local-mode": "NodeCIDR" },
    node: node(["192.168.10.11"], ["fd00:1::/64"]),
    want: ["!the podCIDRs field of the Node has no network of the node's primary IP family, IPv4"],
  },
  {
    name: "addresses of a family that does not work here",
    flags: {
      "ipvs-exclude-cidrs": "fd00:2::/64",
      "healthz-bind-address": "[fd00::1]:10256",
      "metrics-bind-address": "[::]:10249",
    },
    families: ["IPv4"],
    want: [
      "ipvs.excludeCIDRs is not in the primary IP family",
      "healthzBindAddress is not in the primary IP family",
    ],
  },
  {
    name: "node ports in only one family",
    flags: { "nodeport-addresses": "192.168.0.0/16" },
    want: ["nodePortAddresses has no IPv6 network"],
  },
  {
    name: "node ports in only the other family",
    flags: { "nodeport-addresses": "fd00::/8" },
    want: ["nodePortAddresses has no IPv4 network"],
  },
  {
    name: "node ports everywhere",
    flags: { "nodeport-addresses": "" },
    want: ["nodePortAddresses is unset"],
  },
];

describe("checkFamilies", () => {
  for (const { name, flags, families = both, node: record = v4, want } of cases) {
    it(name, () => {
      const { config } = load({ "nodeport-addresses": "primary", ...flags });
      const found = checkFamilies({ config, families, node: record }).map(
        ({ reason, isFatal }) => `${isFatal ? "!" : ""}${reason}`,
      );
      assert.equal(found.length, want.length, found.join("\n"));
      for (const [index, start] of want.entries())
        assert.ok(found[index]?.startsWith(start), found[index]);
    });
  }

  it("uses the family of the node's first address as primary family, and IPv4 without an address", () => {
    const { config } = load({});
    assert.equal(primaryFamily({ config, node: node(["fd00::1", "10.0.0.1"]) }), "IPv6");
    assert.equal(primaryFamily({ config, node: undefined }), "IPv4");
  });
});

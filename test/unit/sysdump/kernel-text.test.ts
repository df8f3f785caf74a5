import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { routesText, rulesetJson } from "../../../src/sysdump/kernel-text.ts";

const ipv4 = `Iface	Destination	Gateway 	Flags	RefCnt	Use	Metric	Mask		MTU	Window	IRTT
eth0	00000000	010AA8C0	0003	0	0	100	00000000	0	0	0
eth1	0001F40A	00000000	0001	0	0	0	00FFFFFF	0	0	0
`;
const ipv6 = `fd000244000000000000000000000000 20 00000000000000000000000000000000 00 fe800000000000000000000000000001 00000400 00000001 00000000 00000003     eth0
`;

describe("the text form of kernel state", () => {
  it("has the addresses of routes in readable form", () => {
    assert.equal(
      routesText(ipv4, ipv6),
      "0.0.0.0/0 via 192.168.10.1 dev eth0 metric 100\n" +
        "10.244.1.0/24 via 0.0.0.0 dev eth1 metric 0\n" +
        "fd00:244::/32 via fe80::1 dev eth0 metric 1024\n",
    );
    assert.equal(routesText("", ""), "");
  });

  it("contains maps and sets", () => {
    const text = rulesetJson({ chains: new Map([["a", new Set(["b"])]]) });
    assert.deepEqual(JSON.parse(text), { chains: { a: ["b"] } });
  });

  it("has addresses of nftables in a form that redaction recognizes", () => {
    const value = Uint8Array.from([10, 96, 0, 10]);
    const rule = { text: "ip daddr 10.96.0.10", expressions: [{ kind: "compare", value }] };
    const hardware = [2, 66, 172, 17, 0, 2];
    const keys = [value, [...value, 0, 80, 0, 0], [0, 80], hardware].map((key) =>
      Uint8Array.from(key),
    );
    assert.deepEqual(JSON.parse(rulesetJson({ rule, keys })), {
      rule: { text: rule.text },
      keys: ["10.96.0.10", "10.96.0.10 . 0.80.0.0", "0050", "02:42:ac:11:00:02"],
    });
  });
});

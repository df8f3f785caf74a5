import assert from "node:assert/strict";
import { isIPv4, isIPv6 } from "node:net";
import { describe, it } from "node:test";
import {
  broadcastOf,
  cidrContains,
  cidrText,
  hostPort,
  type IpAddress,
  ipAddressFromBytes,
  ipAddressToBytes,
  isIpv6LinkLocal,
  isLoopback,
  parseCidr,
  parseIpAddress,
  writeIpAddress,
} from "../../../src/base/ip.ts";
import fc from "../../support/fast-check.ts";
import { cidr, ip } from "../../support/records.ts";

const addresses: readonly { readonly text: string; readonly want: string | undefined }[] = [
  { text: "10.0.0.1", want: "10.0.0.1" },
  { text: "010.000.0.01", want: "10.0.0.1" },
  { text: "255.255.255.255", want: "255.255.255.255" },
  { text: "256.0.0.1", want: undefined },
  { text: "10.0.0", want: undefined },
  { text: "10.0.0.1.2", want: undefined },
  { text: " 10.0.0.1", want: undefined },
  { text: "10.0.0.1\n", want: undefined },
  { text: "0x0a.0.0.1", want: undefined },
  { text: "١٠.0.0.1", want: undefined },
  { text: "", want: undefined },
  { text: "::", want: "::" },
  { text: "::1", want: "::1" },
  { text: "FD00:0:0:0:0:0:0:000A", want: "fd00::a" },
  { text: "fd00:0:0:1:0:0:0:1", want: "fd00:0:0:1::1" },
  { text: "1:0:0:2:0:0:0:0", want: "1:0:0:2::" },
  { text: "1:0:2:3:4:5:6:7", want: "1:0:2:3:4:5:6:7" },
  { text: "::ffff:10.0.0.1", want: "10.0.0.1" },
  { text: "::ffff:a00:1", want: "10.0.0.1" },
  { text: "64:ff9b::10.0.0.1", want: "64:ff9b::a00:1" },
  { text: "10.0.0.1::", want: undefined },
  { text: "fe80::1%eth0", want: undefined },
  { text: "1::2::3", want: undefined },
  { text: "1:2:3:4:5:6:7:8:9", want: undefined },
  { text: "1:2:3:4:5:6:7::8", want: undefined },
  { text: ":1", want: undefined },
  { text: "12345::", want: undefined },
  { text: ":::", want: undefined },
  { text: `${"0".repeat(5000)}.0.0.1`, want: undefined },
];

describe("parseIpAddress", () => {
  for (const { text, want } of addresses) {
    it(`reads ${JSON.stringify(text.slice(0, 30))} as ${want ?? "nothing"}`, () => {
      assert.equal(parseIpAddress(text), want);
    });
  }

  it("agrees with Node.js on what an IPv6 address is", () => {
    const piece = fc.constantFrom("", ":", "::", "0", "f", "ffff", "1.2.3.4", "10000", "g", ".");
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 16 }), (pieces) => {
        const text = pieces.join("");
        if (text.length > 45 || !text.includes(":")) return;
        // Leading zeros in the dotted part are accepted, as in upstream Kubernetes but not in Node.js.
        if (/(^|[:.])0\d+\./.test(text)) return;
        assert.equal(parseIpAddress(text) !== undefined, isIPv6(text), text);
      }),
      { numRuns: 5_000 },
    );
  });

  it("writes bytes that read back identically, and Node.js accepts the text", () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 16, maxLength: 16 }), (bytes) => {
        const text = ipAddressFromBytes(bytes);
        assert.ok(isIPv6(text) || isIPv4(text));
        assert.equal(parseIpAddress(text), text);
        if (isIPv6(text)) assert.deepEqual(ipAddressToBytes(text), bytes);
      }),
      { numRuns: 2_000 },
    );
  });

  it("writes bytes to a position", () => {
    const place = new Uint8Array(18).fill(7);
    for (const text of ["10.96.0.1", "fd00:96::a", "255.0.0.255"]) {
      const address = parseIpAddress(text) as IpAddress;
      const bytes = ipAddressToBytes(address);
      writeIpAddress(address, place, 2);
      assert.deepEqual([...place.subarray(0, 2 + bytes.length)], [7, 7, ...bytes]);
    }
    assert.throws(
      () => writeIpAddress("10.96.0" as IpAddress, place, 0),
      /Not a canonical address/,
    );
  });
});

const networks: readonly { readonly text: string; readonly want: string | undefined }[] = [
  { text: "10.1.2.3/8", want: "10.0.0.0/8" },
  { text: "10.1.2.3/32", want: "10.1.2.3/32" },
  { text: "0.0.0.0/0", want: "0.0.0.0/0" },
  { text: "10.0.0.0/33", want: undefined },
  { text: "10.0.0.0/-1", want: undefined },
  { text: "10.0.0.0/ 8", want: undefined },
  { text: "10.0.0.0", want: undefined },
  { text: "10.0.0.0/8/8", want: undefined },
  { text: "fd00:1:2::3/33", want: "fd00:1::/33" },
  { text: "::/0", want: "::/0" },
  { text: "fd00::/129", want: undefined },
  { text: "::ffff:10.0.0.0/104", want: undefined },
];

describe("parseCidr", () => {
  for (const { text, want } of networks) {
    it(`reads ${text} as ${want ?? "nothing"}`, () => {
      const parsed = parseCidr(text);
      assert.equal(parsed === undefined ? undefined : cidrText(parsed), want);
    });
  }
});

describe("predicates", () => {
  it("keeps families apart", () => {
    assert.equal(cidrContains(cidr("0.0.0.0/0"), ip("fd00::1")), false);
    assert.equal(cidrContains(cidr("::/0"), ip("10.0.0.1")), false);
  });

  it("compares by the prefix", () => {
    assert.equal(cidrContains(cidr("10.244.0.0/16"), ip("10.244.255.1")), true);
    assert.equal(cidrContains(cidr("10.244.0.0/16"), ip("10.245.0.1")), false);
    assert.equal(cidrContains(cidr("fd00:244::/31"), ip("fd00:245::1")), true);
    assert.equal(cidrContains(cidr("fd00:244::/31"), ip("fd00:246::1")), false);
  });

  it("knows loopback and link-local", () => {
    assert.deepEqual(
      ["127.1.2.3", "::1", "10.0.0.1"].map((text) => isLoopback(ip(text))),
      [true, true, false],
    );
    const links = ["fe80::1", "febf::1", "fec0::1", "169.254.1.1"];
    assert.deepEqual(
      links.map((text) => isIpv6LinkLocal(ip(text))),
      [true, true, false, false],
    );
  });

  it("encloses IPv6 addresses in brackets before a port", () => {
    assert.equal(hostPort(ip("fd00::1"), 80), "[fd00::1]:80");
    assert.equal(hostPort(ip("10.0.0.1"), 80), "10.0.0.1:80");
  });
});

describe("the broadcast address of a network", () => {
  const cases: readonly [address: string, prefixLength: number, want: string | undefined][] = [
    ["192.168.10.11", 24, "192.168.10.255"],
    ["10.20.30.40", 12, "10.31.255.255"],
    ["10.0.0.5", 30, "10.0.0.7"],
    ["10.0.0.5", 31, undefined],
    ["10.0.0.5", 32, undefined],
    ["10.0.0.5", 0, "255.255.255.255"],
    ["fd00::1", 64, undefined],
  ];
  for (const [address, prefixLength, want] of cases) {
    it(`${address}/${prefixLength} is ${want ?? "none"}`, () => {
      assert.equal(broadcastOf({ address: ip(address), prefixLength }), want);
    });
  }
});

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { planSysctls } from "../../../src/plan/sysctls.ts";

const reuse = "net/ipv4/vs/conn_reuse_mode";

describe("planSysctls", () => {
  for (const { release, isSet } of [
    { release: "3.10.0-1160.el7", isSet: false },
    { release: "4.0.9", isSet: false },
    { release: "4.1.0", isSet: true },
    { release: "5.8.18-300.fc33", isSet: true },
    { release: "5.9.0", isSet: false },
    { release: "6.1.0-13-amd64", isSet: false },
    { release: "10.0.0", isSet: false },
    { release: "", isSet: false },
  ]) {
    it(`${isSet ? "turns" : "leaves"} conn_reuse_mode on kernel ${release || "unknown"}`, () => {
      const settings = planSysctls({ strictARP: false, kernelRelease: release });
      assert.equal(
        settings.some(({ path }) => path === reuse),
        isSet,
      );
    });
  }

  it("enables connection tracking and forwarding, and expires connections to removed real servers", () => {
    assert.deepEqual(
      planSysctls({ strictARP: false, kernelRelease: "6.1.0" }).map(
        ({ path, value }) => `${path}=${value}`,
      ),
      [
        "net/ipv4/vs/conntrack=1",
        "net/ipv4/vs/expire_nodest_conn=1",
        "net/ipv4/vs/expire_quiescent_template=1",
        "net/ipv4/ip_forward=1",
      ],
    );
  });

  it("adds the ARP settings only for strict ARP", () => {
    const paths = (strictARP: boolean): readonly string[] =>
      planSysctls({ strictARP, kernelRelease: "6.1.0" }).map(({ path }) => path);
    assert.deepEqual(
      paths(true).filter((path) => !paths(false).includes(path)),
      ["net/ipv4/conf/all/arp_ignore", "net/ipv4/conf/all/arp_announce"],
    );
  });
});

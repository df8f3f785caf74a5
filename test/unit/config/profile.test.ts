import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { allFields } from "../../../src/config/fields.ts";
import { readText } from "../../../src/config/read-value.ts";
import { load, loadFile, refusal } from "./loading.ts";

const profile = "kubeIpvs: {profile: kube-proxy}";

describe("kubeIpvs.profile: kube-proxy", () => {
  for (const [name, { config }] of [
    ["in the file", loadFile(profile)],
    ["as a flag with a file", loadFile("", { "kube-ipvs-profile": "kube-proxy" })],
    [
      "as a flag that overrides the file",
      loadFile("kubeIpvs: {profile: kube-ipvs}", { "kube-ipvs-profile": "kube-proxy" }),
    ],
    ["without a file", load({ "proxy-mode": "ipvs", "kube-ipvs-profile": "kube-proxy" })],
  ] as const) {
    it(`restores kube-proxy's behavior: ${name}`, () => {
      assert.deepEqual(config.drain, { tcpDeadlineSeconds: 0, udpDeadlineSeconds: 0 });
      assert.equal(config.foreignVirtualServers, "delete");
      assert.equal(config.mode, "ipvs");
    });
  }

  for (const [lines, flags, expected] of [
    ["tcpDrainDeadline: 15m", {}, [900, 0, "delete"]],
    ["udpDrainDeadline: 5m", {}, [0, 300, "delete"]],
    ["foreignVirtualServers: keep", {}, [0, 0, "keep"]],
    ["", { "kube-ipvs-tcp-drain-deadline": "1m" }, [60, 0, "delete"]],
    ["", { "kube-ipvs-foreign-virtual-servers": "keep" }, [0, 0, "keep"]],
    ['foreignVirtualServers: ""', {}, [0, 0, "delete"]],
  ] as const) {
    it(`does not override explicit settings: ${lines}${Object.entries(flags).join()}`, () => {
      const { config } = loadFile(`kubeIpvs: {profile: kube-proxy, ${lines}}`, flags);
      const { drain, foreignVirtualServers } = config;
      assert.deepEqual(
        [drain.tcpDeadlineSeconds, drain.udpDeadlineSeconds, foreignVirtualServers],
        expected,
      );
    });
  }

  it("changes only these settings", () => {
    const { config } = loadFile(profile);
    const { drain, foreignVirtualServers, tcpDrainDeadlineMs, udpDrainDeadlineMs, ...rest } =
      config;
    const standard = { ...loadFile("").config, profile: "kube-proxy" };
    assert.deepEqual({ ...standard, ...rest }, standard);
  });

  it("is written together with the settings that it changes, so that the file reads the same", () => {
    const { written, config } = loadFile(profile, { "write-config-to": "/out" });
    const text = written?.text ?? "";
    assert.match(text, /^ {2}profile: kube-proxy$/m);
    assert.match(text, /^ {2}tcpDrainDeadline: 0s$/m);
    assert.match(text, /^ {2}foreignVirtualServers: delete$/m);
    assert.deepEqual(load({}, text).config, config);
  });

  it("has parsable defaults", () => {
    const rows = allFields.filter(({ kubeProxyDefault }) => kubeProxyDefault !== undefined);
    assert.equal(rows.length, 3);
    for (const row of rows) assert.ok("value" in readText(row, row.kubeProxyDefault ?? ""));
  });

  it("must be a known name", () => {
    assert.match(
      refusal(() => loadFile("kubeIpvs: {profile: nftables}")),
      /kubeIpvs\.profile: "nftables": must be one of kube-ipvs, kube-proxy$/,
    );
  });
});

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { changeConfig } from "../../../src/config/config-change.ts";
import type { Field } from "../../../src/config/field.ts";
import { allFields } from "../../../src/config/fields.ts";
import { load } from "./loading.ts";

/** For each setting, a non-default value as a flag's text, and other settings that it requires. */
const others: Readonly<Record<string, string>> = {
  bindAddress: "10.0.0.1",
  clusterCIDR: "10.0.0.0/8",
  "clientConnection.kubeconfig": "/k",
  "detectLocal.bridgeInterface": "cni0",
  "detectLocal.interfaceNamePrefix": "veth",
  detectLocalMode: "NodeCIDR",
  nodePortAddresses: "primary",
  "ipvs.excludeCIDRs": "10.1.0.0/16",
  mode: "ipvs",
  "kubeIpvs.foreignVirtualServers": "delete",
  "kubeIpvs.profile": "kube-proxy",
  "kubeIpvs.manualWeights": "repair",
  "kubeIpvs.reservedAddresses": "refuse",
  "kubeIpvs.unboundAddresses": "10.1.0.0/16",
  "kubeIpvs.trafficMetrics": "endpoint",
  "kubeIpvs.runEstimation": "off",
  "kubeIpvs.estimatorCpus": "0-3",
  "kubeIpvs.estimatorNice": "5",
  "kubeIpvs.schedulerFlags": "sh-port",
  "kubeIpvs.portRangeMarks": "0x3fff0000",
  "kubeIpvs.rules": "iptables",
  "kubeIpvs.virtualAddresses": "routes",
  "kubeIpvs.secureMetricsBindAddress": "0.0.0.0:10261",
  "kubeIpvs.weights": "slice",
  healthzBindAddress: "127.0.0.1:7",
  metricsBindAddress: "127.0.0.1:8",
  featureGates: "AllowServiceExternalIPs=false",
  "logging.format": "json",
  "kubeIpvs.nodeProcessPorts": "serve",
};

function otherValue({ path, kind, default: value }: Field): string {
  const known = others[path];
  if (known !== undefined) return known;
  if (kind === "boolean") return value === "true" ? "false" : "true";
  if (kind === "integer" || kind === "float") return "7";
  return kind === "duration" ? "7s" : "other";
}

/** The settings whose default depends on the profile. */
const ofProfile = allFields.flatMap(({ path, kubeProxyDefault }) =>
  kubeProxyDefault === undefined ? [] : [path],
);

/** A server needs both files. */
const certificate = {
  "kube-ipvs-secure-metrics-cert-file": "tls.crt",
  "kube-ipvs-secure-metrics-key-file": "tls.key",
};

const modeOf: Readonly<Record<string, string>> = {
  "detectLocal.bridgeInterface": "BridgeInterface",
  "detectLocal.interfaceNamePrefix": "InterfaceNamePrefix",
};

describe("a change to one setting", () => {
  for (const field of allFields.filter(({ noEffect, flag }) => noEffect === undefined && flag)) {
    const { path, flag = "", isLive, onlyInMode } = field;
    it(`${isLive === true ? "is applied immediately" : "needs a restart"}: ${path}`, () => {
      const mode = modeOf[path];
      const base = {
        ...(mode === undefined ? {} : { "detect-local-mode": mode, [flag]: "eth0" }),
        ...(onlyInMode === undefined ? {} : { "proxy-mode": onlyInMode }),
        ...certificate,
        ...(path === "kubeIpvs.profile" ? { "proxy-mode": "ipvs" } : {}),
      };
      const running = load(base);
      const read = load({ ...base, [flag]: otherValue(field) });
      const { state, applied, needRestart } = changeConfig(running, read);
      const changed = path === "kubeIpvs.profile" ? [path, ...ofProfile] : [path];
      assert.deepEqual([applied, needRestart], isLive === true ? [changed, []] : [[], changed]);
      if (isLive === true) assert.notDeepEqual(state.config, running.config);
      assert.deepEqual(state.config, isLive === true ? { ...read.config } : running.config);
    });
  }
});

describe("changes to several settings", () => {
  it("are applied if possible, and the others are reported again with the next change", () => {
    const first = load({ "ipvs-scheduler": "rr", "kube-ipvs-lock-name": "a" });
    const second = load({ "ipvs-scheduler": "lc", "kube-ipvs-lock-name": "b", v: "4" });
    const { state, applied, needRestart } = changeConfig(first, second);
    assert.deepEqual(applied, ["ipvs.scheduler", "logging.verbosity"]);
    assert.deepEqual(needRestart, ["kubeIpvs.lockName"]);
    assert.deepEqual([state.config.scheduler, state.config.lockName], ["lc", "a"]);
    assert.deepEqual(changeConfig(state, second).applied, []);
    assert.deepEqual(changeConfig(state, second).needRestart, ["kubeIpvs.lockName"]);
    assert.deepEqual(changeConfig(state, first).needRestart, []);
  });

  it("of the listening address and the drain deadline need a restart in userspace mode", () => {
    const mode = { "proxy-mode": "userspace" };
    const changed = {
      ...{ "bind-address": "127.0.0.1", "kube-ipvs-tcp-drain-deadline": "9s" },
      ...{ "nodeport-addresses": "10.0.0.0/8" },
    };
    const { applied, needRestart } = changeConfig(load(mode), load({ ...mode, ...changed }));
    assert.deepEqual(applied, ["nodePortAddresses"]);
    assert.deepEqual(needRestart, ["bindAddress", "kubeIpvs.tcpDrainDeadline"]);
  });

  it("keep the running mode if an empty one is replaced together with the profile that allowed it", () => {
    const head = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";
    const running = load({}, `${head}kubeIpvs: {profile: kube-proxy}\n`);
    const { state, needRestart } = changeConfig(running, load({}, `${head}mode: ipvs\n`));
    assert.deepEqual(needRestart, ["mode"]);
    assert.equal(state.config.mode, "iptables");
    assert.equal(state.config.foreignVirtualServers, "keep");
  });

  it("are not reported if they have no effect", () => {
    const { applied, needRestart } = changeConfig(load({}), load({ "config-sync-period": "7s" }));
    assert.deepEqual([...applied, ...needRestart], []);
  });
});

/** Tests configurations as installers write them. */
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { ClientConfig } from "../../../src/api/cluster/client-config.ts";
import { readKubeconfigFile } from "../../../src/api/cluster/kubeconfig-file.ts";
import { parseYamlDocuments } from "../../../src/base/yaml.ts";
import { parseCommandLine } from "../../../src/cli/command-line.ts";
import { loadConfig } from "../../../src/config/load-config.ts";
import { load, loadFile } from "./loading.ts";

const fileText = (name: string): string =>
  readFileSync(join(import.meta.dirname, "files", name), "utf8");

describe("kubeadm's ConfigMap", () => {
  const [document] = parseYamlDocuments(fileText("kubeadm-config-map.yaml"));
  const { data } = (document?.value ?? {}) as { data: Record<string, string> };
  const folder = mkdtempSync(join(tmpdir(), "kubeadm-"));
  after(() => rmSync(folder, { recursive: true }));

  it("has the default for every zero in config.conf, without a warning", () => {
    const { config, notices } = load({ "hostname-override": "n1" }, data["config.conf"]);
    const { config: defaults } = loadFile("", { "hostname-override": "n1" });
    assert.deepEqual(notices, []);
    assert.deepEqual(config, {
      ...defaults,
      objectsFrom: { kind: "cluster", kubeconfigPath: "/var/lib/kube-proxy/kubeconfig.conf" },
      bindAddress: "::",
      healthzBindAddress: { address: "::", port: 10256 },
      metricsBindAddress: { address: "::1", port: 10249 },
      detectLocal: {
        kind: "cluster-cidr",
        cidrs: [
          { address: "10.244.0.0", prefixLength: 16 },
          { address: "fd00:244::", prefixLength: 56 },
        ],
      },
    });
  });

  it("leads to the API server with the token of kubeconfig.conf", async () => {
    const file = join(folder, "kubeconfig.conf");
    const account = "/var/run/secrets/kubernetes.io/serviceaccount";
    writeFileSync(file, (data["kubeconfig.conf"] ?? "").replaceAll(account, folder));
    for (const name of ["ca.crt", "token"]) writeFileSync(join(folder, name), `${name} of the pod`);
    const client = new ClientConfig(await readKubeconfigFile(file), "");
    assert.equal(client.server, "https://192.168.10.10:6443");
    assert.equal((await client.read()).headers["authorization"], "Bearer token of the pod");
  });
});

describe("kubespray's file", () => {
  it("is read without a warning", () => {
    const { config, notices } = load({}, fileText("kubespray-config.yaml"));
    assert.deepEqual(notices, []);
    assert.deepEqual(config, {
      ...loadFile("").config,
      nodeName: "node1",
      strictARP: true,
      detectLocal: {
        kind: "cluster-cidr",
        cidrs: [{ address: "10.233.64.0", prefixLength: 18 }],
      },
    });
  });
});

describe("flags as k3s and RKE2 set them", () => {
  const args = [
    "--cluster-cidr=10.42.0.0/16",
    "--conntrack-max-per-core=0",
    "--conntrack-tcp-timeout-close-wait=0s",
    "--conntrack-tcp-timeout-established=0s",
    "--healthz-bind-address=127.0.0.1",
    "--hostname-override=Server-0",
    "--kubeconfig=/var/lib/rancher/k3s/agent/kubeproxy.kubeconfig",
    // Flags from kube-proxy-arg come last and may repeat earlier ones.
    "--proxy-mode=iptables",
    "--proxy-mode=ipvs",
    "--ipvs-strict-arp",
    "--ipvs_scheduler=lc",
    "--v=2",
  ];

  it("are read without a warning", () => {
    const parsed = parseCommandLine(args);
    assert.ok(parsed.kind === "flags");
    const context = { hostname: () => "x", readFile: () => "" };
    const { config, notices } = loadConfig(parsed.values, context);
    const { config: defaults } = load({ "hostname-override": "server-0" });
    assert.deepEqual(notices, []);
    assert.deepEqual(config, {
      ...defaults,
      objectsFrom: {
        kind: "cluster",
        kubeconfigPath: "/var/lib/rancher/k3s/agent/kubeproxy.kubeconfig",
      },
      detectLocal: { kind: "cluster-cidr", cidrs: [{ address: "10.42.0.0", prefixLength: 16 }] },
      conntrack: {
        ...defaults.conntrack,
        maxPerCore: 0,
        tcpCloseWaitTimeoutSeconds: 0,
        tcpEstablishedTimeoutSeconds: 0,
      },
      healthzBindAddress: { address: "127.0.0.1", port: 10256 },
      strictARP: true,
      scheduler: "lc",
      logging: { format: "text", verbosity: 2 },
    });
  });
});

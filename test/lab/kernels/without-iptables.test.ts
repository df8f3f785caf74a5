/**
 * Tests a node like a minimal Enterprise Linux 10 image: the kernel has neither xtables nor ip_set, and the programs
 * iptables and ipset are not installed.
 */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, afterEach, before, describe, it } from "node:test";
import { configurationText } from "../../golden/configuration.ts";
import { askName } from "../../support/client-traffic.ts";
import { LabNode } from "../../support/lab-node.ts";
import { shell } from "../../support/netns/network-namespace.ts";
import { endpointSlice, service, servicePort } from "../../support/objects.ts";
import { Program } from "../../support/program.ts";
import { kubeIpvs } from "../../support/run-kube-ipvs.ts";

const pod = { name: "pod-1", address: "10.244.1.10" };
const clusterIp = "10.96.0.10";
const objects = [
  service({ type: "NodePort", ports: [servicePort({ nodePort: 30_080 })] }),
  endpointSlice({ endpoints: [pod.address] }),
];
/**
 * Checks that fail because the lab kernel has no modules folder, and because the lab's root file system is the
 * machine's.
 */
const ofTheLab: ReadonlySet<string> = new Set(["modules", "modules-folder", "iptables-lock"]);

interface Checks {
  readonly checks: readonly {
    readonly name: string;
    readonly verdict: string;
    readonly evidence: string;
  }[];
}

const isWithout: boolean =
  shell("command -v iptables ipset || true; grep -w ip_set /proc/modules || true") === "";

describe("a node without iptables and ipset", { skip: !isWithout && "this node has them" }, () => {
  let node: LabNode;

  before(async () => {
    node = await LabNode.build([pod]);
    node.apply(...objects);
  });
  afterEach(() => node.stop("SIGTERM"));
  after(() => node.destroy());

  it("is served with nf_tables by default", async () => {
    await node.start();
    assert.match(
      node.program.output,
      /"Writing rules with nf_tables, without iptables and ipset" reason="[^"]*[a-z]/,
    );
    assert.equal(await askName(clusterIp, 80), pod.name);
    assert.equal(await askName("192.168.10.11", 30_080), pod.name);
    assert.doesNotMatch(node.program.output, /^[EF]/m);
  });

  it("is not served with `rules: iptables`, and the error names the remedy", async () => {
    const program = new Program([...node.flags, "--kube-ipvs-rules=iptables"]);
    assert.deepEqual(await program.ends(), { code: 1, signal: null }, program.output);
    const lines = program.output.split("\n").filter((line) => /^[EF]|Cannot/.test(line));
    assert.equal(program.failures.length, 1, program.output);
    assert.match(
      program.failures[0] ?? "",
      /^Cannot write rules with iptables and ipset: .+; set kubeIpvs\.rules: nftables$/,
    );
    assert.equal(lines.length, 1, program.output);
  });

  it("is not written to by a restart", async () => {
    // When their owner exits, the kernel removes the tables that keep conntrack active.
    const ruleset = (): readonly string[] =>
      shell("nft -s -a list ruleset")
        .replace(/^table \S+ kube-ipvs-conntrack \{.*?^\}$/gms, "")
        .split(/[\s,]+/)
        .toSorted();
    const written = ruleset();
    assert.ok(written.includes("nat-KUBE-SERVICES"));
    await node.start();
    const text = await (await fetch("http://127.0.0.1:10249/metrics")).text();
    assert.deepEqual(text.match(/^kube_ipvs_kernel_changes_total\{.*$/gm) ?? [], []);
    assert.deepEqual(ruleset(), written);
  });

  it("has working commands", async () => {
    await node.start();
    assert.match(kubeIpvs("status").out, /^OK, 1 Service, /);
    assert.equal(kubeIpvs("plan").out, "No changes.\n");
    const explanation = kubeIpvs("explain", "--from", "192.168.10.1", "--to", `${clusterIp}:80`);
    assert.match(
      explanation.out,
      /^Packets from 192\.168\.10\.1 to 10\.96\.0\.10:80 are balanced over 1 of 1 endpoints? and masqueraded\n/,
    );
    const { checks } = JSON.parse(kubeIpvs("doctor", "-o", "json").out) as Checks;
    const complaints = checks.filter(
      ({ name, verdict }) => !["ok", "skipped"].includes(verdict) && !ofTheLab.has(name),
    );
    assert.deepEqual(complaints, []);
    const backends = checks.find(({ name }) => name === "iptables-backends");
    assert.match(backends?.evidence ?? "", /rules are written with nf_tables$/);
  });

  it("is still served if the configuration file changes to `rules: iptables`", async () => {
    const folder = mkdtempSync(join(tmpdir(), "kube-ipvs-config-"));
    const file = join(folder, "config.conf");
    try {
      for (const configReload of [true, false]) {
        const write = (rules: string): void =>
          writeFileSync(file, configurationText({ kubeIpvs: { configReload, rules } }));
        write("auto");
        await node.start([`--config=${file}`]);
        write("iptables");
        await node.program.prints(
          /"Cannot apply changed configuration file" .*set kubeIpvs\.rules: nftables/,
        );
        assert.equal(await askName(clusterIp, 80), pod.name);
        await node.stop("SIGTERM");
      }
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it("is empty after --cleanup", async () => {
    const program = new Program(["--cleanup", ...node.flags]);
    assert.deepEqual(await program.ends(), { code: 0, signal: null }, program.output);
    assert.equal(shell("nft list ruleset"), "");
    assert.equal(shell("ipvsadm -Sn"), "");
    assert.equal(shell("ip link show kube-ipvs0 2> /dev/null || true"), "");
  });
});

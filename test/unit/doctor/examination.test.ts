import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { rendered } from "../../../src/answer/render.ts";
import { parseYamlDocuments } from "../../../src/base/yaml.ts";
import { worstVerdict } from "../../../src/doctor/check.ts";
import { examine } from "../../../src/doctor/examine.ts";
import { type DoctorReport, doctorView } from "../../../src/doctor/render.ts";
import { known, nodeWith, sysctlsWith, unreadable } from "./node.ts";

const skipped = { skipped: "no API server is configured" };

describe("an examination", () => {
  it("of a healthy node has only the verdict ok", async () => {
    const { findings, skipped } = await examine(nodeWith());
    assert.deepEqual(
      findings.filter(({ verdict }) => verdict !== "ok"),
      [],
    );
    assert.deepEqual(skipped, []);
  });

  it("skips checks that need a cluster or a running proxy, with the reason", async () => {
    const examination = await examine(nodeWith({ isBeforeInstall: true, cluster: skipped }));
    assert.deepEqual(examination.skipped, [
      { name: "estimator", reason: "--before-install is given" },
      { name: "connection-table", reason: "--before-install is given" },
      { name: "packets", reason: "--before-install is given" },
      { name: "vip-collisions", reason: "--before-install is given" },
      { name: "conflicts", reason: "--before-install is given" },
      { name: "strict-arp", reason: skipped.skipped },
      { name: "tunnel-forwarding", reason: "--before-install is given" },
      { name: "clock", reason: skipped.skipped },
      { name: "api-server", reason: skipped.skipped },
      { name: "api-rights", reason: skipped.skipped },
      { name: "dead-nodes", reason: skipped.skipped },
      { name: "version", reason: "--before-install is given" },
    ]);
    assert.match(
      printed(reportOf(examination)),
      /^Skipped because no API server is configured: strict-arp, clock, api-server, api-rights, dead-nodes$/m,
    );
    const narrow = rendered(reportOf(examination), doctorView, "text", { width: 80 });
    assert.deepEqual(
      narrow.split("\n").filter(({ length }) => length > 80),
      [],
    );
  });

  it("skips checks that need a running kube-ipvs if none answers", async () => {
    const daemon = { skipped: "no kube-ipvs answers on /run/x.sock (ENOENT)" };
    assert.deepEqual((await examine(nodeWith({ daemon: known(daemon) }))).skipped, [
      { name: "packets", reason: daemon.skipped },
      { name: "conflicts", reason: daemon.skipped },
      { name: "version", reason: daemon.skipped },
    ]);
  });

  it("has the verdict unknown for a check that cannot read the node, and still runs the others", async () => {
    const { findings } = await examine(nodeWith({ files: unreadable }));
    const unsure = findings.filter(({ verdict }) => verdict !== "ok");
    assert.deepEqual(
      unsure.map(({ name, evidence }) => `${name}: ${evidence}`),
      ["file-descriptors: EACCES"],
    );
    assert.equal(findings.at(-1)?.name, "iptables-lock");
  });

  it("skips the IPVS checks in other modes", async () => {
    const namesIn = async (mode: "iptables" | "userspace"): Promise<readonly string[]> =>
      (await examine(nodeWith({ mode }))).findings.map(({ name }) => name);
    const everywhere = [
      ...[
        "leftovers",
        "packets",
        "rp-filter",
        "conflicts",
        "tunnel-mtu",
        "other-proxy",
        "clock",
        "api-server",
        "api-rights",
        "dead-nodes",
        "version",
      ],
      "file-descriptors",
    ];
    assert.deepEqual(await namesIn("userspace"), ["local-ports", ...everywhere]);
    assert.deepEqual(await namesIn("iptables"), [
      ...["capabilities", "modules", "modules-folder", "forwarding"],
      ...["route-localnet", "conntrack"],
      ...["local-ports", "iptables-backends", ...everywhere, "iptables-lock"],
    ]);
  });

  it("reports first that IPVS is not available, and skips checks that need it", async () => {
    const withoutIpvs = sysctlsWith({
      ...{ "net/ipv4/vs/conntrack": undefined, "net/ipv4/vs/expire_nodest_conn": undefined },
      ...{ "net/ipv4/vs/expire_quiescent_template": undefined },
      ...{ "net/ipv4/vs/conn_reuse_mode": undefined, "net/ipv4/vs/run_estimation": undefined },
    });
    const { findings, skipped } = await examine(
      nodeWith({
        modules: known([{ name: "ip_vs", state: "missing" }]),
        sysctl: withoutIpvs,
        ...{ schedulerProblem: unreadable, ipvs: unreadable, connTabBits: unreadable },
      }),
    );
    assert.match(findings[0]?.evidence ?? "", /^IPVS available: no, /);
    assert.deepEqual(
      findings.filter(({ verdict }) => verdict !== "ok").map(({ name }) => name),
      ["ipvs"],
    );
    assert.deepEqual(
      skipped.map(({ name, reason }) => `${name}: ${reason}`),
      [
        ...["scheduler", "network-namespaces", "conn-reuse-mode", "expire-nodest-conn"],
        ...["estimator", "connection-table"],
      ].map((name) => `${name}: IPVS is not available`),
    );
  });

  it("has the worst verdict of its checks", () => {
    assert.equal(worstVerdict([]), "ok");
    const verdicts = ["ok", "fail", "warn", "unknown"] as const;
    assert.equal(worstVerdict(verdicts.map((verdict) => ({ verdict }))), "fail");
    assert.equal(worstVerdict([{ verdict: "unknown" }, { verdict: "warn" }]), "warn");
    assert.equal(worstVerdict([{ verdict: "unknown" }, { verdict: "ok" }]), "unknown");
  });
});

function reportOf({
  findings: checks,
  skipped,
}: Awaited<ReturnType<typeof examine>>): DoctorReport {
  const verdict = worstVerdict(checks);
  return { apiVersion: "kube-ipvs/v1", kind: "DoctorReport", verdict, checks, skipped };
}

function printed(report: DoctorReport, format = "text", hasColor = false): string {
  return rendered(report, doctorView, format, { hasColor });
}

describe("a printed examination", async () => {
  const report = reportOf(await examine(nodeWith({ missingCapabilities: known(["NET_RAW"]) })));

  it("is aligned, with reason and remedy for each problem", () => {
    const [head, ipvs, first, why, remedy, next] = printed(report).split("\n");
    assert.equal(ipvs, "ok       ipvs                IPVS available: yes");
    assert.equal(head, "VERDICT  CHECK               EVIDENCE");
    assert.equal(first, "fail     capabilities        missing: NET_RAW");
    const indent = " ".repeat(head?.indexOf("EVIDENCE") ?? 0);
    assert.ok(why?.startsWith(`${indent}why: without NET_ADMIN`), why);
    assert.ok(remedy?.startsWith(`${indent}remedy: run as root`), remedy);
    assert.ok(next?.startsWith("ok       kernel  "), next);
  });

  it("has colors only on a terminal", () => {
    assert.equal(printed(report).includes("\u001b"), false);
    assert.ok(printed(report, "text", true).includes("\u001b[31mfail   \u001b[0m"));
  });

  it("has the same content in JSON and YAML", () => {
    const json = JSON.parse(printed(report, "json", true)) as {
      readonly verdict: string;
      readonly checks: readonly { readonly name: string; readonly why: string }[];
    };
    assert.equal(json.verdict, "fail");
    assert.equal(json.checks[0]?.name, "ipvs");
    const [yaml] = parseYamlDocuments(printed(report, "yaml", true));
    assert.deepEqual(yaml?.value, json);
  });
});

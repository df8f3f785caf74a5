/** Validates the alert rules and the dashboard with promtool and the metric table. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { parse, stringify } from "yaml";
import { metricTable } from "../../src/metrics/metric-table.ts";
import { trafficMetricRows } from "../../src/metrics/traffic-table.ts";

const monitoring = join(import.meta.dirname, "../../deploy/monitoring");
const folder = mkdtempSync(join(tmpdir(), "kube-ipvs-alerts-"));
after(() => rmSync(folder, { recursive: true }));

interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly annotations: Readonly<Record<string, string>>;
}
interface Panel {
  readonly title: string;
  readonly gridPos: { readonly x: number; readonly y: number };
  readonly targets: readonly { readonly expr: string }[];
}

const { spec } = parse(readFileSync(join(monitoring, "prometheus-rule.yaml"), "utf8")) as {
  readonly spec: { readonly groups: readonly { readonly rules: readonly Rule[] }[] };
};
const rules = spec.groups.flatMap((group) => group.rules);
const tests = readFileSync(join(monitoring, "alerts.test.yaml"), "utf8");
const dashboard = JSON.parse(readFileSync(join(monitoring, "dashboard.json"), "utf8")) as {
  readonly panels: readonly Panel[];
  readonly templating: { readonly list: readonly { readonly name: string }[] };
};
const panelExpressions = dashboard.panels.flatMap(({ targets }) =>
  targets.map(({ expr }) =>
    expr.replaceAll("$__rate_interval", "5m").replaceAll(/\$(?:cluster|instance)\b/g, "a"),
  ),
);
writeFileSync(join(folder, "rules.yaml"), stringify(spec));
copyFileSync(join(monitoring, "alerts.test.yaml"), join(folder, "alerts.test.yaml"));

function promtool(...args: readonly string[]): string {
  const { status, stdout, stderr } = spawnSync("promtool", args, { encoding: "utf8", cwd: folder });
  assert.equal(status, 0, `${stdout}${stderr}`);
  return stdout;
}

/** Metrics that are not in the table: read from /proc, or provided by Prometheus itself. */
const others = /^(?:process_|nodejs_|up$)/;

function namesIn(expression: string): readonly string[] {
  const names = expression.match(/\b(?:kube|process|nodejs|rest)[a-z]*_[a-z0-9_]+/g) ?? [];
  return names.map((name) => name.replace(/_bucket$/, ""));
}

describe("the alert rules", () => {
  it("are valid according to promtool", () => {
    assert.match(
      promtool("check", "rules", "rules.yaml"),
      new RegExp(`${rules.length} rules found`),
    );
  });

  it("fire only in the intended cases, according to promtool", () => {
    promtool("test", "rules", "alerts.test.yaml");
  });

  it("have a test each", () => {
    for (const { alert } of rules) assert.match(tests, new RegExp(`alertname: ${alert}\\n`));
  });
});

/** The anchors of a document's headings, as code hosting sites generate them. */
function anchorsOf(path: string): ReadonlySet<string> {
  const text = readFileSync(path, "utf8");
  const headings = [...text.matchAll(/^#+ (.+)$/gm)].map(([, heading]) => heading ?? "");
  return new Set(
    headings.map((heading) =>
      heading
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N} _-]/gu, "")
        .replaceAll(" ", "-"),
    ),
  );
}

describe("the runbook of each alert", () => {
  it("is a section of the troubleshooting guide", () => {
    for (const { alert, annotations } of rules) {
      const [path, anchor] = (annotations["runbook_url"] ?? "").split("#");
      assert.match(path ?? "", /^docs\/troubleshooting(?:-traffic)?\.md$/, alert);
      assert.ok(
        anchorsOf(join(monitoring, "../..", path ?? "")).has(anchor ?? ""),
        `${alert}: ${anchor}`,
      );
    }
  });
});

describe("the dashboard", () => {
  it("restricts each query to the selected clusters", () => {
    const variables = dashboard.templating.list.map(({ name }) => name);
    assert.deepEqual(variables, ["datasource", "cluster", "instance"]);
    for (const { title, targets } of dashboard.panels) {
      for (const { expr } of targets) assert.match(expr, /cluster=~"\$cluster"/, title);
    }
  });

  it("contains only queries that Prometheus understands", () => {
    const record = panelExpressions.map((expr, index) => ({ record: `panel:${index}`, expr }));
    const groups = [{ name: "dashboard", rules: record }];
    writeFileSync(join(folder, "panels.yaml"), stringify({ groups }));
    promtool("check", "rules", "panels.yaml");
  });

  it("has panels that do not overlap, each with its own name", () => {
    const places = dashboard.panels.map(({ gridPos: { x, y } }) => `${x},${y}`);
    assert.equal(new Set(places).size, places.length);
    assert.equal(new Set(dashboard.panels.map(({ title }) => title)).size, places.length);
  });
});

describe("alerts and dashboard", () => {
  it("use only metrics that the program has", () => {
    const known = new Set<string>(
      [...Object.values(metricTable), ...trafficMetricRows].map(({ name }) => name),
    );
    const asked = [...rules.map(({ expr }) => expr), ...panelExpressions].flatMap(namesIn);
    assert.ok(asked.length > 20);
    assert.deepEqual(
      asked.filter((name) => !known.has(name) && !others.test(name) && name !== "kube_proxy"),
      [],
    );
  });
});

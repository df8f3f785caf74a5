/** Tests the chart in a release's package, unpacked and rendered without the repository. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { packageChart } from "../../toolchain/release/chart.ts";
import { podOf } from "../support/container/pod.ts";
import { chartPath, everything, renderChart } from "./chart.ts";

const folder = mkdtempSync(join(tmpdir(), "released-chart-"));
after(() => rmSync(folder, { recursive: true }));
const project = join(import.meta.dirname, "../..");
const { version } = JSON.parse(readFileSync(join(project, "package.json"), "utf8")) as {
  readonly version: string;
};

describe("the packaged chart", () => {
  const facts = {
    ...{ repository: "example/kube-ipvs", version, epochSeconds: 1 },
    projectUrl: "https://example.com/kube-ipvs",
    changelog: readFileSync(join(project, "CHANGELOG.md"), "utf8"),
  };
  const bytes = packageChart(chartPath, join(folder, "work/kube-ipvs"), facts);
  execFileSync("tar", ["-xz", "-C", folder], { input: bytes });

  it("renders everything with the release's image", () => {
    const { image: _, ...values } = everything;
    const chart = join(folder, "kube-ipvs");
    const { objects = [], tests = [], error } = renderChart(values, "kube-ipvs", {}, chart);
    assert.equal(error, "");
    const images = JSON.stringify([objects, tests]).match(/"image":"[^"]+"/g) ?? [];
    assert.equal(images.length, 6);
    assert.deepEqual(new Set(images), new Set([`"image":"example/kube-ipvs:${version}"`]));
    assert.equal(podOf(objects).containers.length, 1);
  });
});

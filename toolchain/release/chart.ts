/** Writes the chart as `helm package` does: kube-ipvs/ in a .tgz, with links replaced by their targets. */
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { gzipped, plainMode, tarOf } from "./archive.ts";

export interface ChartFacts {
  /** The image's repository, without a tag. */
  readonly repository: string;
  readonly version: string;
  readonly epochSeconds: number;
}

/** Writes the chart to `folder`, `…/kube-ipvs`, with `repository` as the image's default, and returns the package. */
export function packageChart(chart: string, folder: string, facts: ChartFacts): Buffer {
  const { repository, version, epochSeconds } = facts;
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(dirname(folder), { recursive: true });
  // fs.cpSync does not follow links below the folder.
  execFileSync("cp", ["-RL", chart, folder]);
  const about = readFileSync(join(folder, "Chart.yaml"), "utf8");
  for (const field of ["version", "appVersion"]) {
    if (!new RegExp(`^${field}: ${version}$`, "m").test(about))
      throw new Error(`Chart.yaml: ${field} is not ${version}, the version in package.json`);
  }
  const image = `- name: kube-ipvs\n      image: ${repository}:${version}`;
  writeFileSync(join(folder, "Chart.yaml"), `${about}  artifacthub.io/images: |\n    ${image}\n`);
  const values = join(folder, "values.yaml");
  const text = readFileSync(values, "utf8");
  const unset = 'repository: ""\n';
  if (!text.includes(unset)) throw new Error(`values.yaml: the image has no empty repository`);
  writeFileSync(values, text.replace(unset, `repository: ${repository}\n`));
  const names = [
    "Chart.yaml",
    "values.yaml",
    "values.schema.json",
    "README.md",
    "files",
    "presets",
  ];
  const members = [...names, "templates"].map((name) => `kube-ipvs/${name}`);
  return gzipped(tarOf(dirname(folder), { epochSeconds, members, mode: plainMode }));
}

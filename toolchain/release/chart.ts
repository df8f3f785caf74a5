/** Writes the chart as `helm package` does: kube-ipvs/ in a .tgz, with links replaced by their targets. */
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { parse, stringify } from "yaml";
import { gzipped, plainMode, tarOf } from "./archive.ts";
import { pagesOf } from "./pages.ts";

export interface ChartFacts {
  /** The image's repository, without a tag. */
  readonly repository: string;
  readonly version: string;
  readonly epochSeconds: number;
  /** The project's page. Empty if unknown. */
  readonly projectUrl: string;
  /** The text of CHANGELOG.md. */
  readonly changelog: string;
}

/**
 * Writes the chart to `folder`, `…/kube-ipvs`, with `repository` as the image's default and the metadata that depends on
 * `facts`, and returns the package.
 */
export function packageChart(chart: string, folder: string, facts: ChartFacts): Buffer {
  const { repository, version, epochSeconds } = facts;
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(dirname(folder), { recursive: true });
  // fs.cpSync does not follow links below the folder.
  execFileSync("cp", ["-RL", chart, folder]);
  const about = parse(readFileSync(join(folder, "Chart.yaml"), "utf8")) as About;
  for (const field of ["version", "appVersion"] as const) {
    if (about[field] !== version)
      throw new Error(`Chart.yaml: ${field} is not ${version}, the version in package.json`);
  }
  writeFileSync(join(folder, "Chart.yaml"), stringify(published(about, facts)));
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

/** The fields of Chart.yaml that are read here. */
interface About {
  readonly version: string;
  readonly appVersion: string;
  readonly annotations: Readonly<Record<string, string>>;
}

/** Adds the metadata that Helm and Artifact Hub show. */
function published(
  about: About,
  { repository, version, projectUrl, changelog }: ChartFacts,
): object {
  const pages = pagesOf(projectUrl, version);
  const images = [{ name: "kube-ipvs", image: `${repository}:${version}` }];
  const links = pages && [
    { name: "Documentation", url: pages.documentation },
    { name: "Changelog", url: pages.changelog },
  ];
  return {
    ...about,
    ...(pages && { home: pages.home, sources: [pages.home], icon: pages.icon }),
    annotations: {
      ...about.annotations,
      "artifacthub.io/images": stringify(images),
      "artifacthub.io/changes": stringify(changesIn(changelog, version)),
      ...(links && { "artifacthub.io/links": stringify(links) }),
    },
  };
}

/** Artifact Hub has no kind for breaking changes. */
const kinds: Readonly<Record<string, string>> = { Breaking: "changed" };

/** A version's entries in the changelog, without the targets of links. Throws if there are none. */
function changesIn(
  changelog: string,
  version: string,
): readonly { readonly kind: string; readonly description: string }[] {
  const ofVersion = changelog.split(/^## /m).find((text) => text.startsWith(`${version} `)) ?? "";
  const changes = ofVersion.split(/^### /m).flatMap((group) => {
    const [heading = "", ...entries] = group.split(/\n+- /);
    const kind = kinds[heading] ?? heading.toLowerCase();
    return entries.map((entry) => {
      const description = entry.trim().replaceAll(/\s+/g, " ");
      return { kind, description: description.replaceAll(/\[([^\]]+)\]\([^)]+\)/g, "$1") };
    });
  });
  if (changes.length === 0) throw new Error(`CHANGELOG.md has no entries for ${version}`);
  return changes;
}

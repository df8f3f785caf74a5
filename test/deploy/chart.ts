/** The chart, rendered with the engine that Helm uses (chart-renderer/). */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parse, parseAllDocuments } from "yaml";
import type { Manifest } from "../support/container/pod.ts";

const project: string = join(import.meta.dirname, "../..");
export const chartPath: string = join(project, "deploy/helm/kube-ipvs");
const renderer: string = join(project, "build/test/chart-renderer");

export type Values = Readonly<Record<string, unknown>>;

/** The least that an operator must say. */
export const leastValues: Values = { apiServer: "https://10.0.0.1:6443" };

/** A file of the chart as a value. */
export function readChartFile(name: string): unknown {
  return parse(readFileSync(join(chartPath, name), "utf8"));
}

export interface Rendering {
  /** Absent: it could not be rendered. */
  readonly objects?: readonly Manifest[];
  readonly text: string;
  readonly error: string;
}

/** Renders all templates; `values` are laid over the chart's. */
export function renderChart(values: Values): Rendering {
  const folder = mkdtempSync(join(tmpdir(), "kube-ipvs-chart-"));
  const file = join(folder, "values.yaml");
  writeFileSync(file, JSON.stringify(values));
  const { status, stdout, stderr } = spawnSync(renderer, [chartPath, file], { encoding: "utf8" });
  rmSync(folder, { recursive: true });
  if (status !== 0) return { text: stdout, error: stderr || `the renderer ended with ${status}` };
  return { objects: objectsIn(stdout), text: stdout, error: "" };
}

/** NOTES.txt is for people. */
function objectsIn(text: string): readonly Manifest[] {
  const parts = text.split(/^---$/m).filter((part) => !part.includes("# Source: NOTES.txt"));
  return parts
    .flatMap((part) => parseAllDocuments(part))
    .map((document) => {
      if ("errors" in document && document.errors.length > 0) throw document.errors[0];
      return document.toJS() as Manifest | null;
    })
    .filter((object) => object !== null);
}

/**
 * Objects against what the API server takes. Two judges, both of the packages kubernetes-models and
 * @kubernetes-models/prometheus-operator, made from Kubernetes' own OpenAPI and the operator's CRDs: their JSON
 * schemas for types and formats, and their TypeScript types for unknown fields, which the schemas let pass.
 */
import { spawnSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Manifest } from "../support/container/pod.ts";

/** `apps/v1`, `DaemonSet` → the module that has class and interface. */
function moduleOf({ apiVersion, kind }: Manifest): string {
  const isOperators = String(apiVersion).startsWith("monitoring.coreos.com/");
  const base = isOperators ? "@kubernetes-models/prometheus-operator" : "kubernetes-models";
  return `${base}/${apiVersion}/${kind}`;
}

type Model = new (object: Manifest) => { validate(): void };

/** What is wrong with an object by the schemas; undefined: nothing. */
export async function schemaProblem(manifest: Manifest): Promise<string | undefined> {
  const module = (await import(moduleOf(manifest))) as Readonly<Record<string, Model>>;
  const Class = module[manifest.kind];
  if (Class === undefined) return `${moduleOf(manifest)} has no ${manifest.kind}`;
  try {
    new Class(manifest).validate();
    return undefined;
  } catch (error) {
    return String(error);
  }
}

const project: string = join(import.meta.dirname, "../..");

/** What the compiler says when each object is written as a literal of its type; empty: nothing. */
export function typeProblems(manifests: readonly Manifest[]): string {
  const folder = join(project, "build/deploy-types");
  mkdirSync(folder, { recursive: true });
  const file = join(folder, "manifests.ts");
  const lines = manifests.flatMap((manifest, index) => [
    `import type { I${manifest.kind} as T${index} } from "${moduleOf(manifest)}";`,
    `export const object${index}: T${index} = ${JSON.stringify(manifest, null, 1)};`,
  ]);
  writeFileSync(file, lines.join("\n"));
  const settings = ["--strict", "--noEmit", "--skipLibCheck", "--module", "nodenext"];
  const { status, stdout, stderr } = spawnSync("tsc", ["--ignoreConfig", ...settings, file], {
    encoding: "utf8",
  });
  return status === 0 ? "" : stdout + stderr || `tsc ended with ${status}`;
}

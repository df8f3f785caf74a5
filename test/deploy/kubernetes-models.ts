/**
 * Validates objects with the packages kubernetes-models and @kubernetes-models/prometheus-operator, which are generated
 * from Kubernetes' OpenAPI and the operator's CRDs. Their JSON schemas check types and formats, and their TypeScript
 * types find unknown fields, which the schemas accept.
 */
import { spawnSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Manifest } from "../support/container/pod.ts";

/** Returns the module with the class and interface for `apps/v1`, `DaemonSet`. */
function moduleOf({ apiVersion, kind }: Manifest): string {
  const isOperators = String(apiVersion).startsWith("monitoring.coreos.com/");
  const base = isOperators ? "@kubernetes-models/prometheus-operator" : "kubernetes-models";
  return `${base}/${apiVersion}/${kind}`;
}

type Model = new (object: Manifest) => { validate(): void };

/** The problem that the schemas find in an object. Undefined if there is none. */
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

/** The compiler's errors if each object is written as a literal of its type. Empty if there are none. */
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
  return status === 0 ? "" : stdout + stderr || `tsc exited with ${status}`;
}

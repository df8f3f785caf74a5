/** Runs the built program's commands, as an operator does. */
import assert from "node:assert/strict";
import { execFile, spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Explanation } from "../../src/answer/explanation.ts";
import { parseJson } from "../../src/base/parse-json.ts";
import type { Finding } from "../../src/doctor/check.ts";
import { assertDescribed } from "./answer-schemas.ts";
import type { ApiObject } from "./objects.ts";

export interface Run {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

export const program: string = join(import.meta.dirname, "../../dist/kube-ipvs");

/** Runs a command in this thread's namespace. Fails if JSON output does not match its schema. */
export function kubeIpvs(...args: readonly string[]): Run {
  const { status, stdout, stderr } = spawnSync(program, args, { encoding: "utf8" });
  assertDescribed(args, stdout);
  return { code: status, out: stdout, err: stderr };
}

/** Unlike {@link kubeIpvs}, does not block this process, which may own sockets that the command needs. */
export async function runKubeIpvs(...args: readonly string[]): Promise<Run> {
  return new Promise((resolve) => {
    execFile(program, args, (error, out, err) => {
      resolve({ code: error === null ? 0 : Number(error.code), out, err });
    });
  });
}

/** The doctor's finding about Services that do not get an address they claim: verdict, evidence, remedy. */
export function judgedConflicts(...args: readonly string[]): string {
  const { out, err } = kubeIpvs("doctor", "-o", "json", ...args);
  assert.notEqual(out, "", err);
  const { checks } = parseJson(out) as { readonly checks: readonly Finding[] };
  const { verdict, evidence, remedy } = checks.find(({ name }) => name === "conflicts") ?? {};
  return `${verdict}: ${evidence}; ${remedy}`;
}

/** The changes that applying these objects would make on this node: `kube-ipvs plan -f`. */
export function plannedOf(...objects: readonly ApiObject[]): Run {
  const path = join(tmpdir(), "applied.json");
  writeFileSync(path, JSON.stringify({ kind: "List", items: objects }));
  return kubeIpvs("plan", "-f", path);
}

export function explained(...args: readonly string[]): readonly Explanation[] {
  const { out, err } = kubeIpvs("explain", ...args, "-o", "json");
  assert.notEqual(out, "", err);
  return (parseJson(out) as { readonly items: readonly Explanation[] }).items;
}

/** `missing virtual server …`. */
export function differencesOf(explanation: Explanation | undefined): readonly string[] {
  return (explanation?.differences ?? []).map(({ kind, subject }) => `${kind} ${subject}`);
}

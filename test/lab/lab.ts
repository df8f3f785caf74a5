/** Where a command finds IPVS on this machine: in its own kernel, in a lab kernel, or nowhere. */
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { runInHostNamespace } from "./host-namespace.ts";
import {
  findLabKernel,
  type IptablesVariant,
  type LabKernel,
  type LabOptions,
  type LabResult,
  labPath,
  type Output,
  runInLabKernel,
} from "./lab-kernel.ts";

export type Lab =
  | { readonly kind: "host" }
  | { readonly kind: "lab-kernel"; readonly kernel: LabKernel }
  /** `missing`: one line, what is missing and what would have worked. */
  | { readonly kind: "none"; readonly missing: string };

/** LAB=host or LAB=uml in the environment overrules the choice; LAB_KERNEL names the folder of a built kernel. */
export function findLab(environment: NodeJS.ProcessEnv = process.env): Lab {
  const choice = environment["LAB"];
  const folder = environment["LAB_KERNEL"];
  if (folder !== undefined) {
    const built = findLabKernel(folder);
    if (built !== undefined) return { kind: "lab-kernel", kernel: built };
    return { kind: "none", missing: `no kernel in LAB_KERNEL=${folder}: make lab-kernel` };
  }
  if (choice !== "uml" && hostHasIpvs()) return { kind: "host" };
  const kernel = findLabKernel();
  if (choice !== "host" && kernel !== undefined) return { kind: "lab-kernel", kernel };
  return { kind: "none", missing: explainMissing(process.arch) };
}

/** The file is there once the module is loaded or when it is built in. */
function hostHasIpvs(): boolean {
  if (existsSync("/proc/net/ip_vs")) return true;
  spawnSync("modprobe", ["-q", "ip_vs"], { stdio: "ignore" });
  return existsSync("/proc/net/ip_vs");
}

export function explainMissing(architecture: string): string {
  const noIpvs = "this machine's kernel has no IPVS (modprobe ip_vs fails)";
  if (architecture !== "x64") {
    return `${noIpvs}, and the lab kernel exists for amd64 only: use a machine whose kernel has IPVS, or an amd64 one`;
  }
  return `${noIpvs}, and no lab kernel is installed: apt-get install user-mode-linux, or use a machine whose kernel has IPVS`;
}

/** Runs a command in a fresh lab, in the current folder, and passes its output on. */
export function runInLab(
  lab: Exclude<Lab, { kind: "none" }>,
  argv: readonly string[],
  options: LabOptions,
  output: Output,
  signal?: AbortSignal,
): Promise<LabResult> {
  const command = {
    argv,
    workingDirectory: process.cwd(),
    environment: {
      ...testEnvironment(),
      PATH: labPath(),
      HOME: "/root",
      LAB_KIND: lab.kind,
      ...(options.terminal === undefined ? {} : { TERM: process.env["TERM"] ?? "dumb" }),
    },
  };
  return lab.kind === "host"
    ? runInHostNamespace(command, options, output, signal)
    : runInLabKernel(
        lab.kernel,
        command,
        { iptables: iptablesVariant(), ...options },
        output,
        signal,
      );
}

/** LAB_IPTABLES=nft in the environment; the kernel must have it. */
function iptablesVariant(): IptablesVariant {
  return process.env["LAB_IPTABLES"] === "nft" ? "nft" : "legacy";
}

/** Variables that choose what tests do pass into the lab; nothing else of the environment does. */
function testEnvironment(): Record<string, string> {
  const entries = Object.entries(process.env).filter(
    (entry): entry is [string, string] =>
      /^(TEST|GOLDEN|DEMO|NODE)_/.test(entry[0]) && entry[1] !== undefined,
  );
  return Object.fromEntries(entries);
}

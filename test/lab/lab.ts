/** Chooses the kernel for a command that needs IPVS: the lab kernel or, on request, this machine's own. */
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { runInHostNamespace } from "./host-namespace.ts";
import { findShortage } from "./kernel-needs.ts";
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
  /** `missing` is one line that names the missing requirement and the alternative. */
  | { readonly kind: "none"; readonly missing: string };

/** Functions with which `findLab` inspects this machine. */
export interface LabSources {
  /** Returns the installed lab kernel, or the one that `make lab-kernel` built in a folder. */
  findKernel(folder?: string): LabKernel | undefined;
  hostHasIpvs(): boolean;
  /** Returns one line about what this machine lacks for a lab kernel. */
  findShortage(): string | undefined;
  readonly architecture: string;
}

const thisMachine: LabSources = {
  findKernel: findLabKernel,
  hostHasIpvs,
  findShortage,
  architecture: process.arch,
};

/**
 * Finds the lab kernel, even if this machine's own kernel has IPVS, because tests set the clock, unload modules and set
 * limits. Only LAB=host in the environment selects the machine's own kernel. LAB_KERNEL names the folder of a built lab
 * kernel.
 */
export function findLab(
  environment: NodeJS.ProcessEnv = process.env,
  machine: LabSources = thisMachine,
): Lab {
  const choice = environment["LAB"] ?? "uml";
  if (choice === "host") {
    if (machine.hostHasIpvs()) return { kind: "host" };
    const missing = "LAB=host: this machine's kernel has no IPVS (modprobe ip_vs fails)";
    return { kind: "none", missing: `${missing}; without LAB=host the lab kernel is used` };
  }
  if (choice !== "uml")
    return {
      kind: "none",
      missing: `LAB=${choice} is unknown: use LAB=uml (the default) or LAB=host`,
    };
  const folder = environment["LAB_KERNEL"];
  const kernel = machine.findKernel(folder);
  if (kernel !== undefined) {
    const missing = machine.findShortage();
    return missing === undefined ? { kind: "lab-kernel", kernel } : { kind: "none", missing };
  }
  if (folder !== undefined)
    return { kind: "none", missing: `no kernel in LAB_KERNEL=${folder}: make lab-kernel` };
  return { kind: "none", missing: explainMissing(machine.architecture) };
}

/** The file exists if the module is loaded or built-in. */
function hostHasIpvs(): boolean {
  if (existsSync("/proc/net/ip_vs")) return true;
  spawnSync("modprobe", ["-q", "ip_vs"], { stdio: "ignore" });
  return existsSync("/proc/net/ip_vs");
}

export function explainMissing(architecture: string): string {
  const useHost =
    "LAB=host uses this machine's own kernel, without the tests that change the whole machine";
  return architecture === "x64"
    ? `the lab kernel is not installed: apt-get install user-mode-linux, or ${useHost}`
    : `the lab kernel exists for amd64 only; ${useHost}`;
}

/** Runs a command in a new lab in the current folder, and passes on its output. */
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
    ? runInHostNamespace(command, { iptables: iptablesVariant(), ...options }, output, signal)
    : runInLabKernel(
        lab.kernel,
        command,
        { iptables: iptablesVariant(), ...options },
        output,
        signal,
      );
}

/** Reads LAB_IPTABLES from the environment. The kernel must support this variant. */
function iptablesVariant(): IptablesVariant {
  const variant = process.env["LAB_IPTABLES"];
  return variant === "nft" || variant === "none" ? variant : "legacy";
}

/** Passes on only the variables that select what tests do. */
function testEnvironment(): Record<string, string> {
  const entries = Object.entries(process.env).filter(
    (entry): entry is [string, string] =>
      /^(TEST|GOLDEN|DEMO|NODE)_/.test(entry[0]) && entry[1] !== undefined,
  );
  return Object.fromEntries(entries);
}

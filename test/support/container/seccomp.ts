/** The system calls that a runtime allows a container, according to its `seccompProfile`. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { SecurityContext } from "./pod.ts";

/** The profile in Debian's package for Podman and CRI-O, which `make build/test/seccomp.json` fetches. */
const profilePath: string = join(import.meta.dirname, "../../../build/test/seccomp.json");

/** The kubelet's profile folder on a node. */
const localFolder: string = join(import.meta.dirname, "../../../deploy/seccomp");

interface Condition {
  readonly arches?: readonly string[];
  readonly caps?: readonly string[];
}

interface SystemCalls {
  readonly names: readonly string[];
  readonly action: string;
  readonly args?: readonly object[];
  readonly errnoRet?: number;
  readonly includes?: Condition;
  readonly excludes?: Condition;
}

interface Profile {
  readonly defaultAction: string;
  readonly defaultErrnoRet: number;
  readonly syscalls: readonly SystemCalls[];
}

/** The seccomp part of an OCI runtime specification. Undefined if the container does not request a profile. */
export function seccompOf(
  { seccompProfile }: SecurityContext,
  capabilities: readonly string[],
): { readonly seccomp?: object } {
  if (seccompProfile?.type === "RuntimeDefault") return { seccomp: defaultSeccomp(capabilities) };
  if (seccompProfile?.localhostProfile === undefined) return {};
  return { seccomp: localSeccomp(seccompProfile.localhostProfile) };
}

function localSeccomp(name: string): object {
  const { archMap, ...profile } = JSON.parse(readFileSync(join(localFolder, name), "utf8")) as {
    readonly archMap: readonly { readonly architecture: string }[];
  };
  return { ...profile, architectures: archMap.map(({ architecture }) => architecture) };
}

/** The profile for a container with these capabilities, in OCI runtime specification format. */
function defaultSeccomp(capabilities: readonly string[]): object {
  const profile = JSON.parse(readFileSync(profilePath, "utf8")) as Profile;
  const arch = process.arch === "x64" ? "amd64" : process.arch;
  const has = {
    arches: (one: string) => one === arch,
    caps: (one: string) => capabilities.includes(one),
  };
  const applies = ({ includes = {}, excludes = {} }: SystemCalls): boolean =>
    (includes.arches ?? [arch]).some(has.arches) &&
    (includes.caps ?? []).every(has.caps) &&
    !(excludes.arches ?? []).some(has.arches) &&
    !(excludes.caps ?? []).some(has.caps);
  return {
    defaultAction: profile.defaultAction,
    defaultErrnoRet: profile.defaultErrnoRet,
    syscalls: profile.syscalls.filter(applies).map(({ names, action, args = [], errnoRet }) => ({
      names,
      action,
      args,
      ...(errnoRet === undefined ? {} : { errnoRet }),
    })),
  };
}

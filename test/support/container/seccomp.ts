/** The system calls that a runtime leaves to containers with `seccompProfile: RuntimeDefault`. */
import { readFileSync } from "node:fs";
import { join } from "node:path";

/** As Debian packages it for podman and CRI-O; `make build/test/seccomp.json` fetches it. */
const profilePath: string = join(import.meta.dirname, "../../../build/test/seccomp.json");

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

/** The profile for a container with these capabilities, in the form of an OCI runtime specification. */
export function defaultSeccomp(capabilities: readonly string[]): object {
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
      ...{ names, action, args },
      ...(errnoRet === undefined ? {} : { errnoRet }),
    })),
  };
}

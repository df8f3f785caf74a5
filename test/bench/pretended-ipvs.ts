/** Simulates IPVS for measurements on a host whose kernel lacks it: see pretend-ipvs.c. */
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { sysctlsOf } from "../../src/daemon/node/prepare-kernel.ts";

const build: string = join(import.meta.dirname, "../../build/bench");

/** The environment for a daemon on the host. If the kernel has IPVS, this process's own environment. */
export function hostEnvironment(): NodeJS.ProcessEnv {
  if (existsSync("/proc/net/ip_vs")) return process.env;
  const sysctls = join(build, "sysctls");
  mkdirSync(sysctls, { recursive: true });
  for (const { path } of sysctlsOf({ strictARP: false })) {
    if (path.startsWith("net/ipv4/vs/")) writeFileSync(join(sysctls, basename(path)), "0\n");
  }
  const preload = join(build, "pretend-ipvs.so");
  return { ...process.env, LD_PRELOAD: preload, PRETEND_SYSCTLS: sysctls };
}

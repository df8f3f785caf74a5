import type { Logger } from "../../base/log.ts";
import type { Kernel } from "../../kernel/kernel.ts";
import type { SysctlSetting } from "../../plan/sysctls.ts";

/** Sets a sysctl if its value differs, and logs the previous value. Throws KernelFileError. */
export function setSysctl(
  { sysctl }: Pick<Kernel, "sysctl">,
  { path, value }: SysctlSetting,
  log: Logger,
): void {
  const before = sysctl.read(path);
  if (!sysctl.ensure(path, value)) return;
  log.info("Set sysctl", { entry: path, value: shown(value), before: shown(before ?? "") });
}

/** Converts numeric values to numbers, so that they are logged as in kube-proxy. */
function shown(value: string): string | number {
  return /^\d{1,15}$/.test(value) ? Number(value) : value;
}

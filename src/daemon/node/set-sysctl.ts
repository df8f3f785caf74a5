import type { Logger } from "../../base/log.ts";
import type { Kernel } from "../../kernel/kernel.ts";
import type { SysctlSetting } from "../../plan/sysctls.ts";

/** Sets what differs, and says what it was. A value that already holds is never written. Throws KernelFileError. */
export function setSysctl(
  { sysctl }: Pick<Kernel, "sysctl">,
  { path, value }: SysctlSetting,
  log: Logger,
): void {
  const before = sysctl.read(path);
  if (!sysctl.ensure(path, value)) return;
  log.info("Set sysctl", { entry: path, value: shown(value), before: shown(before ?? "") });
}

/** A number as a number, as kube-proxy logs it. */
function shown(value: string): string | number {
  return /^\d{1,15}$/.test(value) ? Number(value) : value;
}

import type { SyncContext } from "./sync-context.ts";

/** Writes the settings that somebody changed; the start has written them once. */
export async function writeSysctls({ kernel, known, report, work }: SyncContext): Promise<void> {
  for (const { path, value } of work.sysctls) {
    try {
      kernel.sysctl.ensure(path, value);
      report.count("sysctl-write");
      known.sysctls.set(path, value);
    } catch (error) {
      report.fail("sysctl-write", path, error);
    }
  }
}

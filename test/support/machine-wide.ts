/**
 * Some tests change more than their network namespace: the clock, modules, or kernel-wide limits. They run only in the
 * lab kernel, never on a machine's own kernel. test/lab/lab.ts sets `LAB_KIND`.
 */

/** The `skip` option of such a test: false in the lab kernel, else the reason. */
export function skippedOnHost(
  change: string,
  environment: NodeJS.ProcessEnv = process.env,
): string | false {
  return isInLabKernel(environment) ? false : `it ${change}, so it runs in the lab kernel only`;
}

/** Prevents the change itself outside the lab kernel, regardless of how the caller was started. */
export function requireLabKernel(
  change: string,
  environment: NodeJS.ProcessEnv = process.env,
): void {
  if (isInLabKernel(environment)) return;
  throw new Error(
    `Not in the lab kernel (LAB_KIND=${environment["LAB_KIND"] ?? ""}): this ${change}`,
  );
}

function isInLabKernel(environment: NodeJS.ProcessEnv): boolean {
  return environment["LAB_KIND"] === "lab-kernel";
}

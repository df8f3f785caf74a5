/**
 * Some tests change more than their network namespace: the clock, modules, limits of the whole kernel. They run in the
 * lab kernel, never on a machine's own kernel. `LAB_KIND` comes from test/lab/lab.ts.
 */

/** The `skip` option of such a test: false in the lab kernel, else the reason. */
export function skippedOnHost(
  change: string,
  environment: NodeJS.ProcessEnv = process.env,
): string | false {
  return isInLabKernel(environment) ? false : `it ${change}, so it runs in the lab kernel only`;
}

/** Guards the change itself, however its caller was started. */
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

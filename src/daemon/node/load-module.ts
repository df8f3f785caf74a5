import type { Logger } from "../../base/log.ts";
import type { Kernel } from "../../kernel/kernel.ts";

/** Loads a module that may be absent. Where that fails, whoever needs it shows why that matters. */
export async function loadModule(
  { modules }: Pick<Kernel, "modules">,
  module: string,
  log: Logger,
): Promise<void> {
  if (modules.isAvailable(module) === true) return;
  try {
    await modules.load(module);
  } catch (error) {
    log.warn("Cannot load kernel module", { module, err: error });
  }
}

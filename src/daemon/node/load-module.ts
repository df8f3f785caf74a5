import type { Logger } from "../../base/log.ts";
import type { Kernel } from "../../kernel/kernel.ts";
import { ModuleError } from "../../kernel/modules/module-error.ts";

/**
 * Loads a module that may be absent. If loading fails, only logs a warning, because the code that needs the module
 * reports the consequence.
 */
export async function loadModule(
  { modules }: Pick<Kernel, "modules">,
  module: string,
  log: Logger,
): Promise<void> {
  if (modules.isAvailable(module) === true) return;
  try {
    await modules.load(module);
  } catch (error) {
    log.warn("Cannot load kernel module", {
      module,
      err: error instanceof ModuleError ? error.reason : error,
    });
  }
}

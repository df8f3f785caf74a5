/** A kernel module that is not available and could not be loaded. */
export class ModuleError extends Error {
  readonly module: string;
  /** The message without its first part, for log events that already name the module. */
  readonly reason: string;

  constructor(name: string, problem: string, advice: string, cause?: unknown) {
    const reason = `${problem}; ${advice}`;
    super(`Cannot load kernel module ${name}: ${reason}`, { cause });
    this.name = "ModuleError";
    this.module = name;
    this.reason = reason;
  }
}

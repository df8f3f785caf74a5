import type { Modules } from "../../../src/kernel/kernel.ts";
import type { Operations } from "./operations.ts";

/** Kernel modules in memory. */
export class FakeModules implements Modules {
  readonly #operations: Operations;
  /** Loaded or built-in modules. */
  readonly available: Set<string> = new Set(["ip_vs", "ip_vs_rr", "nf_conntrack", "ip_set"]);
  /** Modules that modprobe would find. */
  readonly loadable: Set<string> = new Set(
    ["dummy", "ip_vs_wrr", "ip_vs_lc", "ip_vs_wlc", "ip_vs_fo", "ip_vs_ovf", "ip_vs_lblc"].concat([
      "ip_vs_lblcr",
      "ip_vs_dh",
      "ip_vs_sh",
      "ip_vs_mh",
      "ip_vs_sed",
      "ip_vs_nq",
    ]),
  );

  /** `module/parameter` → text. */
  readonly parameters: Map<string, string> = new Map([
    ["nf_conntrack/hashsize", "65536"],
    ["nf_conntrack/acct", "N"],
  ]);

  constructor(operations: Operations) {
    this.#operations = operations;
  }

  isAvailable(name: string): boolean | undefined {
    return this.available.has(name);
  }

  isLoadable(name: string): boolean | undefined {
    return this.loadable.has(name);
  }

  async load(name: string): Promise<void> {
    if (this.available.has(name)) return;
    this.#operations.change({ facility: "module", action: "load", subject: name }, () => {
      if (!this.loadable.has(name)) throw new Error(`Cannot load kernel module ${name}: not found`);
      this.available.add(name);
    });
  }

  readParameter(name: string, parameter: string): string | undefined {
    return this.parameters.get(`${name}/${parameter}`);
  }

  writeParameter(name: string, parameter: string, value: string): void {
    const subject = `${name}/${parameter}=${value}`;
    this.#operations.change({ facility: "module", action: "write", subject }, () => {
      if (!this.parameters.has(`${name}/${parameter}`)) {
        throw new Error(`Cannot set module parameter ${subject}: ENOENT`);
      }
      this.parameters.set(`${name}/${parameter}`, value);
    });
  }
}

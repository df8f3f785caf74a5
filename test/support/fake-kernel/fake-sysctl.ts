import type { Sysctl } from "../../../src/kernel/kernel.ts";
import type { Operations } from "./operations.ts";

/** Values of the sysctls that tests need, as in a new network namespace on Linux 6.1. */
const freshValues: Readonly<Record<string, string>> = {
  "net/ipv4/ip_forward": "0",
  "net/ipv4/conf/all/arp_ignore": "0",
  "net/ipv4/conf/all/arp_announce": "0",
  "net/ipv4/conf/all/route_localnet": "0",
  "net/ipv4/vs/conntrack": "0",
  "net/ipv4/vs/conn_reuse_mode": "1",
  "net/ipv4/vs/expire_nodest_conn": "0",
  "net/ipv4/vs/expire_quiescent_template": "0",
  "net/ipv4/vs/sloppy_sctp": "0",
  "net/ipv4/vs/sloppy_tcp": "0",
  "net/ipv6/conf/all/forwarding": "0",
};

/** /proc/sys in memory. */
export class FakeSysctl implements Sysctl {
  readonly #operations: Operations;
  /** Values by path with slashes. Tests may set or delete them. */
  readonly values: Map<string, string> = new Map(Object.entries(freshValues));

  constructor(operations: Operations) {
    this.#operations = operations;
  }

  read(path: string): string | undefined {
    return this.#operations.read("sysctl", "read", path, () => this.values.get(path));
  }

  ensure(path: string, value: string): boolean {
    const present = this.read(path);
    if (present === value) return false;
    this.#operations.change(
      { facility: "sysctl", action: "write", subject: `${path}=${value}` },
      () => {
        if (present === undefined) throw new Error(`Cannot set sysctl ${path} to ${value}: ENOENT`);
        this.values.set(path, value);
      },
    );
    return true;
  }
}

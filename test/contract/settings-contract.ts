import assert from "node:assert/strict";
import { describe } from "node:test";
import { contractCase, type OpenContractKernel } from "./contract-kernel.ts";

export function describeSysctlContract(name: string, open: OpenContractKernel): void {
  describe(`${name}: sysctl`, () => {
    contractCase(open, "writes different values, once", async ({ sysctl }) => {
      const path = "net/ipv4/vs/expire_nodest_conn";
      assert.equal(sysctl.read(path), "0");
      assert.equal(sysctl.ensure(path, "1"), true);
      assert.equal(sysctl.read(path), "1");
      assert.equal(sysctl.ensure(path, "1"), false);
    });

    contractCase(open, "reports a missing value", async ({ sysctl }) => {
      assert.equal(sysctl.read("net/ipv4/vs/no_such_value"), undefined);
      assert.throws(() => sysctl.ensure("net/ipv4/vs/no_such_value", "1"), /no_such_value.*ENOENT/);
    });
  });
}

export function describeModulesContract(name: string, open: OpenContractKernel): void {
  describe(`${name}: modules`, () => {
    contractCase(open, "knows which modules are loaded", async ({ modules }) => {
      assert.equal(modules.isAvailable("ip_vs"), true);
      await modules.load("ip_vs");
    });

    contractCase(open, "names a module that cannot be loaded", async ({ modules }) => {
      assert.notEqual(modules.isAvailable("no_such_module"), true);
      await assert.rejects(modules.load("no_such_module"), /no_such_module/);
    });

    contractCase(open, "reads and writes a parameter", async ({ modules }) => {
      assert.match(modules.readParameter("nf_conntrack", "hashsize") ?? "", /^\d+$/);
      // The table size can only be set in the first network namespace.
      const present = modules.readParameter("nf_conntrack", "acct");
      assert.match(present ?? "", /^[NY]$/);
      modules.writeParameter("nf_conntrack", "acct", present ?? "");
      assert.equal(modules.readParameter("nf_conntrack", "acct"), present);
      assert.equal(modules.readParameter("nf_conntrack", "no_such_parameter"), undefined);
      assert.throws(
        () => modules.writeParameter("nf_conntrack", "no_such_parameter", "1"),
        /no_such_parameter.*ENOENT/,
      );
    });
  });
}

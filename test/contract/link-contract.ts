import assert from "node:assert/strict";
import { describe } from "node:test";
import type { AddressChange, DummyLink } from "../../src/kernel/kernel.ts";
import { contractCase, ip, type OpenContractKernel } from "./contract-kernel.ts";

function change(kind: "add" | "remove", ...texts: readonly string[]): AddressChange[] {
  return texts.map((text) => ({ kind: `address-${kind}`, address: ip(text) }));
}

/** Addresses of the dummy link with their prefix lengths, sorted, without those that the kernel adds. */
async function bound(link: DummyLink): Promise<readonly string[]> {
  const found = await link.find();
  const addresses = await link.listAddresses();
  return addresses
    .filter(({ linkIndex, address }) => linkIndex === found?.index && !address.startsWith("fe80:"))
    .map(({ address, prefixLength }) => `${address}/${prefixLength}`)
    .sort();
}

export function describeLinkContract(name: string, open: OpenContractKernel): void {
  describe(`${name}: dummy link`, () => {
    contractCase(open, "is absent initially", async ({ link }) => {
      assert.equal(await link.find(), undefined);
      await link.remove();
    });

    contractCase(open, "is created once and remains down", async ({ link }, contract) => {
      const made = await link.ensure();
      assert.equal(made.wasCreated, true);
      assert.deepEqual(await link.find(), { index: made.index });
      assert.deepEqual(await link.ensure(), { index: made.index, wasCreated: false });
      assert.equal(contract.isLinkUp(), false);
    });

    contractCase(open, "is removed with its addresses", async ({ link }) => {
      await link.ensure();
      await link.apply(change("add", "10.96.0.1"));
      await link.remove();
      assert.equal(await link.find(), undefined);
      await link.ensure();
      assert.deepEqual(await bound(link), []);
    });

    contractCase(open, "binds addresses of both families to single hosts", async ({ link }) => {
      await link.ensure();
      assert.deepEqual(await link.apply(change("add", "10.96.0.1", "fd00:96::1")), []);
      assert.deepEqual(await bound(link), ["10.96.0.1/32", "fd00:96::1/128"]);
    });

    contractCase(
      open,
      "accepts additions of existing addresses and removals of absent ones",
      async ({ link }) => {
        await link.ensure();
        const twice = change("add", "10.96.0.1", "fd00:96::1", "10.96.0.1", "fd00:96::1");
        assert.deepEqual(await link.apply(twice), []);
        assert.deepEqual(await link.apply(change("remove", "10.96.0.9", "fd00:96::9")), []);
        const both = [...change("remove", "10.96.0.1"), ...change("add", "10.96.0.2")];
        assert.deepEqual(await link.apply(both), []);
        assert.deepEqual(await bound(link), ["10.96.0.2/32", "fd00:96::1/128"]);
      },
    );

    contractCase(open, "binds nothing without a link", async ({ link }) => {
      const failed = await link.apply([
        ...change("remove", "10.96.0.9"),
        ...change("add", "10.96.0.1"),
      ]);
      assert.deepEqual(
        failed.map(({ index }) => index),
        [1],
      );
      assert.match(failed[0]?.error.message ?? "", /10\.96\.0\.1.*: ENODEV/);
    });

    contractCase(open, "also lists the addresses of other links", async ({ link }) => {
      const loopback = (await link.listAddresses()).filter(({ linkIndex }) => linkIndex === 1);
      assert.deepEqual(loopback.map(({ address }) => address).sort(), ["127.0.0.1", "::1"]);
    });

    contractCase(open, "lists each gateway in the main table once", async ({ link }, contract) => {
      assert.deepEqual(await link.listGateways(), []);
      contract.addGateways("192.0.2.1", "fd00:10::1");
      assert.deepEqual((await link.listGateways()).toSorted(), ["192.0.2.1", "fd00:10::1"]);
    });

    contractCase(open, "reports changes", async ({ link }) => {
      const changed = Promise.withResolvers<void>();
      const stop = link.watch(changed.resolve, changed.reject);
      try {
        await link.ensure();
        await link.apply(change("add", "10.96.0.1"));
        await changed.promise;
      } finally {
        stop();
      }
    });
  });
}

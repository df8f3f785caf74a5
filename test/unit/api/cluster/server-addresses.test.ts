import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type LookUp, ServerAddresses } from "../../../../src/api/cluster/server-addresses.ts";

async function settle(): Promise<void> {
  await new Promise<void>((resolve) => setImmediate(resolve));
}

const known = (addresses: ServerAddresses): readonly string[] =>
  addresses.current().map(({ address }) => address);

const refuse: LookUp = () => Promise.reject(new Error("EAI_AGAIN"));

describe("the API server's addresses", () => {
  for (const [url, address] of [
    ["https://10.0.0.1:6443", "10.0.0.1"],
    ["https://[FD00::0:1]:6443/prefix", "fd00::1"],
  ] as const) {
    it(`are in its URL: ${url}`, () => {
      assert.deepEqual(new ServerAddresses(url, refuse).current(), [{ address, port: 6443 }]);
    });
  }

  for (const [url, port] of [
    ["https://10.0.0.1", 443],
    ["http://10.0.0.1", 80],
  ] as const) {
    it(`use the scheme's port if the URL has none: ${url}`, () => {
      assert.deepEqual(new ServerAddresses(url, refuse).current(), [{ address: "10.0.0.1", port }]);
    });
  }

  it("are looked up for a host name, and again on each query", async () => {
    const answers = [["10.0.0.2", "10.0.0.1"], ["fd00::1"]];
    const names: string[] = [];
    const addresses = new ServerAddresses("https://api.example:6443", async (name) => {
      names.push(name);
      return (answers.shift() ?? []).map((address) => ({ address }));
    });
    assert.deepEqual(known(addresses), []);
    await settle();
    assert.deepEqual(known(addresses), ["10.0.0.1", "10.0.0.2"]);
    await settle();
    assert.deepEqual(known(addresses), ["fd00::1"]);
    assert.deepEqual(names, ["api.example", "api.example", "api.example"]);
  });

  it("stay the same while the name cannot be resolved", async () => {
    let lookUp: LookUp = async () => [{ address: "10.0.0.1" }];
    const addresses = new ServerAddresses("https://api.example:6443", (name) => lookUp(name));
    addresses.current();
    await settle();
    lookUp = refuse;
    addresses.current();
    await settle();
    assert.deepEqual(known(addresses), ["10.0.0.1"]);
  });
});

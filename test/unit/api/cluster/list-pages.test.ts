import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { readPages } from "../../../../src/api/cluster/list-pages.ts";

const services = { name: "services" };

/** Reads pages, each with the token that `tokenOf` returns for its number. Resolves with the requested tokens. */
async function askedTokens(tokenOf: (page: number) => string): Promise<readonly string[]> {
  const asked: string[] = [];
  const reading = readPages(services, async (token) => {
    asked.push(token);
    return { resourceVersion: "9", continueToken: tokenOf(asked.length) };
  });
  await reading.catch((error: Error) => {
    assert.equal(
      error.message,
      "Cannot list services: the API server returns a continue token with every page; check proxies between this node and the API server",
    );
    asked.push("error");
  });
  return asked;
}

describe("the pages of a list", () => {
  it("are read until one has no token", async () => {
    assert.deepEqual(await askedTokens((page) => ["a", "b"][page - 1] ?? ""), ["", "a", "b"]);
  });

  it("end with an error if a page returns the token that requested it", async () => {
    assert.deepEqual(await askedTokens(() => "same"), ["", "same", "error"]);
  });

  it("end with an error after 2,000 pages with different tokens", async () => {
    const asked = await askedTokens(String);
    assert.deepEqual([asked.length, asked.at(-1)], [2_001, "error"]);
  });
});

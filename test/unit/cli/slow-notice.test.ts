import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { withSlowNotice } from "../../../src/cli/slow-notice.ts";
import { FakeClock } from "../../support/fake-clock.ts";

/** Returns the output of a command that answers after this many milliseconds. It prints `first` immediately. */
async function printed(afterMs: number, columns: number | undefined, first = ""): Promise<string> {
  const clock = new FakeClock();
  let text = "";
  const write = (part: string): void => {
    text += part;
  };
  const context = { clock, writeOut: write, writeErr: write, columns: () => columns };
  const code = await withSlowNotice("kube-ipvs plan", context, async ({ writeOut }) => {
    if (first !== "") writeOut(first);
    await clock.advance(afterMs);
    writeOut("No changes.\n");
    return 2;
  });
  assert.equal(code, 2);
  await clock.advance(10_000);
  return text;
}

describe("a command in a terminal", () => {
  it("reports after two seconds without output that it is still working", async () => {
    assert.equal(
      await printed(2_500, 80),
      "kube-ipvs plan: still working after 2 s\nNo changes.\n",
    );
  });

  it("reports nothing if the answer arrived or something was printed by then", async () => {
    assert.equal(await printed(1_900, 80), "No changes.\n");
    assert.equal(await printed(2_500, 80, "Reading\n"), "Reading\nNo changes.\n");
  });

  it("reports nothing if the output is not a terminal", async () => {
    assert.equal(await printed(2_500, undefined), "No changes.\n");
  });
});

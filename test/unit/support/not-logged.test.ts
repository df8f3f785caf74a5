import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { assertNotLogged } from "../../support/not-logged.ts";

describe("assertNotLogged", () => {
  const event = "First sync completed";

  it("passes if the event is not in the output", () => {
    assertNotLogged(`I1124 "Stopping" ${event}`, event);
  });

  it("fails if the event is in the output", () => {
    assert.throws(() => assertNotLogged(`I1124 "${event}" changes=0`, event), /logged "First sync/);
  });

  it("fails if no source file contains the event", () => {
    assert.throws(() => assertNotLogged("", "Moon is full"), /no source file logs "Moon is full"/);
  });
});

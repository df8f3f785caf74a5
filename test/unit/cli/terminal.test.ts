import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasColors, terminalWidth } from "../../../src/cli/terminal.ts";

const terminal = { isTTY: true, columns: 120 };
const pipe = {};

describe("the width of tables", () => {
  it("is that of the terminal unless COLUMNS overrides it", () => {
    assert.equal(terminalWidth(terminal, {}), 120);
    assert.equal(terminalWidth(terminal, { COLUMNS: "60" }), 60);
  });

  it("is that of the terminal if COLUMNS is not a positive whole number", () => {
    for (const value of ["", "0", "-1", "1.5", "wide"]) {
      assert.equal(terminalWidth(terminal, { COLUMNS: value }), 120, value);
    }
  });

  it("is 80 if the terminal reports a width of 0", () => {
    assert.equal(terminalWidth({ isTTY: true, columns: 0 }, {}), 80);
  });

  it("is unlimited in a pipe", () => {
    assert.equal(terminalWidth(pipe, {}), undefined);
    assert.equal(terminalWidth(pipe, { COLUMNS: "60" }), undefined);
  });
});

describe("colors", () => {
  it("are shown only in a terminal", () => {
    assert.equal(hasColors(terminal, {}), true);
    assert.equal(hasColors(pipe, {}), false);
  });

  it("are disabled by NO_COLOR unless it is empty", () => {
    assert.equal(hasColors(terminal, { NO_COLOR: "1" }), false);
    assert.equal(hasColors(terminal, { NO_COLOR: "0" }), false);
    assert.equal(hasColors(terminal, { NO_COLOR: "" }), true);
  });
});

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { plotSvg, scale } from "../../bench/plot.ts";

describe("a plot", () => {
  it("has an axis that ends at a round number", () => {
    const { at, ticks } = scale(0, 47, [100, 0]);
    assert.deepEqual(ticks, [0, 10, 20, 30, 40, 50]);
    assert.deepEqual([at(0), at(25), at(50)], [100, 50, 0]);
    assert.deepEqual(scale(0, 0.9, [0, 1]).ticks.length, 6);
  });

  it("draws a line for each series, and escapes names", () => {
    const svg = plotSvg({
      title: "A < B",
      xLabel: "Services",
      yLabel: "ms",
      limit: { y: 3, text: "target" },
      series: [
        {
          name: "one & two",
          points: [
            [0, 1],
            [10, 2],
          ],
        },
        {
          name: "three",
          points: [
            [0, 2],
            [10, 1],
          ],
        },
      ],
    });
    assert.equal(svg.match(/<polyline/g)?.length, 2);
    assert.equal(svg.match(/<circle/g)?.length, 4);
    assert.match(svg, /A &lt; B/);
    assert.match(svg, /one &amp; two/);
    assert.match(svg, /prefers-color-scheme: dark/);
    assert.ok(svg.indexOf('<rect class="page" width="720" height="400"') < svg.indexOf("<text"));
  });
});

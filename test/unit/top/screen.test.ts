import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { TrafficRow } from "../../../src/answer/traffic.ts";
import { shortNumber } from "../../../src/answer/traffic-view.ts";
import { grouped } from "../../../src/base/counted.ts";
import { noTraffic } from "../../../src/state/traffic.ts";
import { estimatorNotes } from "../../../src/top/reading.ts";
import { layOut, type ScreenContent } from "../../../src/top/screen.ts";
import { firstShown, press, type ViewState } from "../../../src/top/view-state.ts";
import fc from "../../support/fast-check.ts";
import { ip } from "../../support/records.ts";

const initial: ViewState = {
  sort: "connections",
  isReversed: false,
  filter: "",
  isPaused: false,
};

function row(index: number): TrafficRow {
  const name = `web-${String(index).padStart(5, "0")}`;
  const port = 1 + (index % 60_000);
  return {
    ...{ namespace: "shop", name, portName: "http" },
    protocol: "TCP",
    virtualServers: [{ address: ip("10.96.0.1"), port }],
    activeConnections: index,
    inactiveConnections: 0,
    total: noTraffic,
    perSecond: { ...noTraffic, connections: 100_000 - index, bytesIn: 1_234_567, bytesOut: 12 },
  };
}

function content(count: number, state: Partial<ViewState> = {}): ScreenContent {
  return {
    state: { ...initial, ...state },
    rows: Array.from({ length: count }, (_, index) => row(index)),
    endpoints: [],
    intervalText: "2s",
    notes: [],
  };
}

const shownTexts = (given: ScreenContent, columns: number, rows: number): readonly string[] =>
  layOut(given, { columns, rows }).lines.map(({ text }) => text);

describe("the screen", () => {
  it("shows figures, names, totals and available keys", () => {
    assert.deepEqual(shownTexts(content(2), 120, 6), [
      "kube-ipvs top - 2 Service ports, by conns/s, every 2s",
      "All: 200k conns/s, in 2.5MB/s 0 packets/s, out 24B/s 0 packets/s, 1 active and 0 inactive connections",
      "  CONNS/S   IN-B/S  OUT-B/S   ACTIVE  INACTIVE  SERVICE                  VIRTUAL-SERVER",
      ">    100k     1.2M       12        0         0  shop/web-00000:http TCP  10.96.0.1:1",
      "     100k     1.2M       12        1         0  shop/web-00001:http TCP  10.96.0.1:2",
      "enter endpoints, / filter, c/i/o/a/n/s sort, r reverse, space pause, q quit",
    ]);
  });

  it("has as many lines as the terminal, none wider, for all sizes", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 60 }),
        fc.integer({ min: 1, max: 200 }),
        fc.integer({ min: 0, max: 80 }),
        fc.boolean(),
        (rows, columns, count, isOpened) => {
          const given = {
            ...content(count, isOpened ? { opened: "web-00000" } : {}),
            notes: ["one", "two"],
          };
          const { lines } = layOut(given, { columns, rows });
          assert.equal(lines.length, rows);
          for (const { text } of lines) assert.ok(text.length <= columns, text);
        },
      ),
    );
  });

  it("pages to the selected row, and keeps it when the order changes", () => {
    const last = shownTexts(content(100, { chosen: "shop/web-00099:http TCP" }), 80, 10);
    assert.match(last.find((line) => line.startsWith(">")) ?? "", /web-00099/);
    const other = shownTexts(
      content(100, { chosen: "shop/web-00099:http TCP", sort: "active" }),
      80,
      10,
    );
    assert.match(other[3] ?? "", /^>.*web-00099/);
    assert.equal(firstShown(25, 10), 20);
  });

  it("shows no characters that could move the cursor", () => {
    const [one] = content(1).rows;
    assert.ok(one !== undefined);
    const given = { ...content(0), rows: [{ ...one, name: "a\u001b[2Jb" }] };
    assert.ok(shownTexts(given, 120, 6).every((line) => !line.includes("\u001b")));
  });

  it("reports what is missing, and shows no rates that the kernel does not count", () => {
    const notes = estimatorNotes({ isCounting: false });
    assert.match(notes[0] ?? "", /net\.ipv4\.vs\.run_estimation=0/);
    const [{ perSecond: _, ...one } = row(0)] = content(1).rows;
    const shown = shownTexts({ ...content(0), rows: [one], notes }, 120, 8);
    assert.match(shown.join("\n"), /^> {7}- {8}- {8}- {8}0/m);
    assert.deepEqual(estimatorNotes({ isCounting: true }), []);
  });

  it("of 10,000 Services has as many lines as the terminal", () => {
    const given = content(10_000, { filter: "web" });
    assert.equal(layOut(given, { columns: 200, rows: 50 }).lines.length, 50);
  });
});

describe("figures", () => {
  it("have three digits and a unit", () => {
    const texts = [
      0, 0.04, 0.5, 7, 7.46, 9.96, 99.4, 999.4, 999.5, 1_234, 34_000, 5.6e6, 9e15, 1e19,
    ];
    assert.deepEqual(texts.map(shortNumber), [
      ...["0", "0", "0.5", "7", "7.5", "10", "99", "999", "1k", "1.2k", "34k", "5.6M", "9P"],
      "10000P",
    ]);
    assert.equal(shortNumber(Number.NaN), "-");
    assert.equal(grouped(1_204), "1,204");
  });
});

describe("keys", () => {
  const shown = { keys: ["a", "b", "c", "d", "e"], pageSize: 2 };
  const after = (...keys: readonly string[]): ViewState =>
    keys.reduce((state, key) => press(state, key, shown).state, initial);

  it("move within the list", () => {
    assert.equal(after("down").chosen, "b");
    assert.equal(after("down", "k", "up").chosen, "a");
    assert.equal(after("end").chosen, "e");
    assert.equal(after("end", "page-down", "page-up").chosen, "c");
    assert.equal(after("end", "home").chosen, "a");
    assert.deepEqual(press(initial, "down", { keys: [], pageSize: 1 }).state, initial);
  });

  it("sort, and reverse the order", () => {
    assert.deepEqual([after("a").sort, after("a").isReversed], ["active", false]);
    assert.equal(after("a", "a").isReversed, true);
    assert.equal(after("a", "a", "s").isReversed, false);
    assert.equal(after("r").isReversed, true);
  });

  it("enter, keep or remove a filter", () => {
    assert.equal(after("/", "q", "x", "backspace", "enter").filter, "q");
    assert.equal(after("/", "q", "escape").filter, "");
    assert.equal(after("/", "q").typed, "q");
    assert.equal(after("/", "q", "enter", "escape").filter, "");
    assert.equal(after("/", "page-up").typed, "");
  });

  it("open the endpoints of a row, and go back", () => {
    const opened = press(after("down"), "enter", shown);
    assert.deepEqual([opened.state.opened, opened.effect], ["b", "read"]);
    assert.equal(press(opened.state, "enter", shown).effect, undefined);
    const back = press(opened.state, "escape", shown).state;
    assert.deepEqual([back.opened, back.chosen], [undefined, "b"]);
  });

  it("pause, and quit", () => {
    assert.equal(after(" ").isPaused, true);
    assert.equal(after(" ", " ").isPaused, false);
    assert.equal(press(initial, "q", shown).effect, "quit");
    assert.equal(press(after("/"), "interrupt", shown).effect, "quit");
    assert.equal(press(after("/"), "q", shown).effect, undefined);
  });
});

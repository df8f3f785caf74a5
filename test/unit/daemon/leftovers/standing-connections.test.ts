import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { connectionsEnd } from "../../../../src/daemon/leftovers/standing-connections.ts";
import type { ConnectionCounts } from "../../../../src/state/traffic.ts";
import { type VirtualServerId, virtualServerKey } from "../../../../src/state/virtual-server.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { FakeKernel } from "../../../support/fake-kernel/fake-kernel.ts";
import { ip } from "../../../support/records.ts";

const web: VirtualServerId = { protocol: "TCP", address: ip("10.96.0.10"), port: 80 };
const dns: VirtualServerId = { protocol: "UDP", address: ip("10.96.0.53"), port: 53 };

describe("the wait for an earlier mode's connections", () => {
  let clock: FakeClock;
  let counts: Map<VirtualServerId, ConnectionCounts>;
  /** Virtual servers whose active connections are all in state SYN_SENT. */
  let synSent: Set<VirtualServerId>;
  /** The time of each reading, and the virtual servers that were read. */
  let readings: (readonly [atMs: number, ids: readonly VirtualServerId[]])[];
  let readingMs: number;
  let announced: number[];
  let stop: AbortController;
  let result: readonly string[] | undefined;

  beforeEach(() => {
    clock = new FakeClock();
    counts = new Map();
    synSent = new Set();
    readings = [];
    readingMs = 0;
    announced = [];
    stop = new AbortController();
    result = undefined;
  });

  function set(id: VirtualServerId, activeConnections: number, inactiveConnections: number): void {
    counts.set(id, { activeConnections, inactiveConnections });
  }

  async function begin(tcpDeadlineSeconds = 0, udpDeadlineSeconds = 5): Promise<void> {
    const kernel = new FakeKernel();
    const none = { activeConnections: 0, inactiveConnections: 0 };
    const sumConnections = async (
      ids: readonly VirtualServerId[],
    ): Promise<readonly ConnectionCounts[]> => {
      readings.push([clock.monotonicMs(), ids]);
      if (readingMs > 0) await new Promise<void>((resolve) => clock.after(readingMs, resolve));
      return ids.map((id) => counts.get(id) ?? none);
    };
    const hasEstablished = async (ids: readonly VirtualServerId[]): Promise<boolean> =>
      ids.some((id) => !synSent.has(id));
    Object.assign(kernel.ipvs, { sumConnections, hasEstablished });
    const onWait = (count: number): void => void announced.push(count);
    const drain = { tcpDeadlineSeconds, udpDeadlineSeconds };
    const parts = { clock, stop: stop.signal, onWait };
    void connectionsEnd(kernel, [web, dns], { drain }, parts).then((standing) => {
      result = standing.map(virtualServerKey);
    });
    await clock.advance(0);
  }

  it("ends immediately if there are none", async () => {
    set(web, 0, 7);
    await begin();
    assert.deepEqual([result, announced], [[], []]);
  });

  it("ends with the last established one, and does not check ended ones again", async () => {
    set(web, 1, 0);
    await begin();
    await clock.advance(600_000);
    assert.deepEqual([result, announced], [undefined, [1]]);
    assert.deepEqual(readings[0]?.[1], [web, dns]);
    assert.deepEqual(readings[1], [1_000, [web]]);
    set(web, 0, 3);
    await clock.advance(1_000);
    assert.deepEqual(result, []);
  });

  it("ends at the drain deadline of each protocol", async () => {
    set(web, 1, 0);
    set(dns, 0, 4);
    await begin(10, 5);
    assert.deepEqual(announced, [2]);
    await clock.advance(9_999);
    assert.equal(result, undefined);
    await clock.advance(1);
    assert.deepEqual(result, ["UDP 10.96.0.53:53"], "its flows still exist");
  });

  it("ends immediately if there are only UDP flows, which may be cut", async () => {
    set(dns, 0, 4);
    await begin(10, 0);
    assert.deepEqual([result, announced], [["UDP 10.96.0.53:53"], []]);
  });

  it("ignores active connections that are not established", async () => {
    set(web, 1, 0);
    set(dns, 0, 4);
    synSent.add(web);
    await begin(0, 5);
    assert.deepEqual(announced, [1]);
    await clock.advance(5_000);
    assert.deepEqual(result, ["UDP 10.96.0.53:53"]);
  });

  it("pauses for at most 30 seconds, however long a reading takes", async () => {
    set(web, 1, 0);
    readingMs = 10_000;
    await begin();
    await clock.advance(80_000);
    assert.deepEqual(
      readings.map(([atMs]) => atMs),
      [0, 40_000, 80_000],
    );
  });

  it("pauses fifty times as long as a reading takes", async () => {
    set(web, 1, 0);
    readingMs = 100;
    await begin();
    await clock.advance(15_299);
    assert.deepEqual(
      readings.map(([atMs]) => atMs),
      [0, 5_100, 10_200],
    );
  });

  it("ends with the program", async () => {
    set(web, 1, 0);
    set(dns, 0, 4);
    await begin(0, 3_600);
    stop.abort();
    await clock.advance(0);
    assert.deepEqual(result, ["UDP 10.96.0.53:53"]);
  });
});

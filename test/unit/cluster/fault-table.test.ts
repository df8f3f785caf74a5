import assert from "node:assert/strict";
import { test } from "node:test";
import { type FaultResult, withResults } from "../../cluster/fault-table.ts";

const head =
  "name\tfault\tseconds until a changed endpoint serves\tconnections\tbroken\tcommit\tdate";
const result: FaultResult = {
  name: "reboot",
  fault: "a node is rebooted",
  seconds: 2.345,
  held: 50,
  broken: 0,
  commit: "abc",
  date: "2026-11-25",
};

test("a table without earlier lines has the results below its head", () => {
  assert.equal(
    withResults("", [result]),
    `${head}\nreboot\ta node is rebooted\t2.3\t50\t0\tabc\t2026-11-25\n`,
  );
});

test("a result replaces the earlier line of the same fault, even if it is described differently", () => {
  const other = { ...result, name: "restore", fault: "etcd is restored" };
  const earlier = withResults("", [result, other]);
  assert.equal(
    withResults(earlier, [{ ...result, fault: "a node reboots", broken: 3 }]),
    `${head}\nrestore\tetcd is restored\t2.3\t50\t0\tabc\t2026-11-25\nreboot\ta node reboots\t2.3\t50\t3\tabc\t2026-11-25\n`,
  );
});

test("an endpoint change that no node applied has no duration", () => {
  assert.match(withResults("", [{ ...result, seconds: undefined }]), /rebooted\tnever\t50/);
});

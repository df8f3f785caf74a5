import assert from "node:assert/strict";
import { test } from "node:test";
import { type FaultResult, withResults } from "../../cluster/fault-table.ts";

const head = "fault\tseconds until a changed endpoint serves\tconnections\tbroken\tcommit\tdate";
const result: FaultResult = {
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
    `${head}\na node is rebooted\t2.3\t50\t0\tabc\t2026-11-25\n`,
  );
});

test("a result replaces the earlier line of the same fault and keeps the others", () => {
  const earlier = withResults("", [result, { ...result, fault: "etcd is restored" }]);
  assert.equal(
    withResults(earlier, [{ ...result, broken: 3 }]),
    `${head}\netcd is restored\t2.3\t50\t0\tabc\t2026-11-25\na node is rebooted\t2.3\t50\t3\tabc\t2026-11-25\n`,
  );
});

test("a changed endpoint that no node served has no seconds", () => {
  assert.match(withResults("", [{ ...result, seconds: undefined }]), /rebooted\tnever\t50/);
});

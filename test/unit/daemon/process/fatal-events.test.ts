import assert from "node:assert/strict";
import { it } from "node:test";
import type { ClusterEvent } from "../../../../src/api/event.ts";
import { ListenError } from "../../../../src/daemon/http/http-listener.ts";
import { FatalEvents } from "../../../../src/daemon/process/fatal-events.ts";

it("the reason for the program's exit is an Event on the Node if a cluster is configured", () => {
  const fatal = new FatalEvents("node-1");
  fatal.record(new Error("nobody hears it"));
  const events: ClusterEvent[] = [];
  fatal.recordWith({ record: (event) => void events.push(event) });
  fatal.record(new ListenError("has an event of its own"));
  fatal.record(new Error("no\nkernel"));
  assert.deepEqual(events, [
    {
      type: "Warning",
      reason: "CommandFailed",
      action: "StartKubeProxy",
      subject: { kind: "Node", namespace: "", name: "node-1" },
      note: "no; kernel",
    },
  ]);
});

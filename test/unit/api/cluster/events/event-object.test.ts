import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  eventName,
  eventObject,
  eventsPath,
  seriesKey,
  seriesPatch,
} from "../../../../../src/api/cluster/events/event-object.ts";
import type { ClusterEvent } from "../../../../../src/api/event.ts";

const timeMs = Date.UTC(2026, 10, 21, 15, 4, 5, 67);
const stamp = { serial: "18a1", timeMs, reportingInstance: "kube-proxy-host-1" };
const listen: ClusterEvent = {
  type: "Warning",
  reason: "FailedToStartServiceHealthcheck",
  action: "Listen",
  subject: { kind: "Service", namespace: "shop", name: "web" },
  note: "port 31000 is taken",
};
const starting: ClusterEvent = {
  type: "Normal",
  reason: "Starting",
  action: "StartKubeProxy",
  subject: { kind: "Node", namespace: "", name: "node-1" },
  note: "",
};

describe("the object of an event", () => {
  it("is about a Service in its namespace", () => {
    assert.deepEqual(eventObject(listen, stamp), {
      apiVersion: "events.k8s.io/v1",
      kind: "Event",
      metadata: { name: "web.18a1", namespace: "shop" },
      eventTime: "2026-11-21T15:04:05.067000Z",
      reportingController: "kube-proxy",
      reportingInstance: "kube-proxy-host-1",
      type: "Warning",
      reason: "FailedToStartServiceHealthcheck",
      action: "Listen",
      regarding: { apiVersion: "v1", kind: "Service", name: "web", namespace: "shop" },
      note: "port 31000 is taken",
    });
    assert.equal(eventsPath(listen.subject), "/apis/events.k8s.io/v1/namespaces/shop/events");
  });

  it("is about the Node, which has no namespace, so the Event is in default", () => {
    const object = eventObject(starting, stamp);
    assert.deepEqual(object["metadata"], { name: "node-1.18a1", namespace: "default" });
    assert.deepEqual(object["regarding"], { apiVersion: "v1", kind: "Node", name: "node-1" });
    assert.equal(eventsPath(starting.subject), "/apis/events.k8s.io/v1/namespaces/default/events");
  });

  it("has a note of at most 1024 bytes, without split characters", () => {
    const { note } = eventObject({ ...listen, note: "ü".repeat(600) }, stamp);
    assert.equal(note, `${"ü".repeat(510)}…`);
    assert.equal(
      eventObject({ ...listen, note: "x".repeat(1_024) }, stamp)["note"],
      "x".repeat(1_024),
    );
  });

  it("has a name that is not too long", () => {
    const subject = { ...starting.subject, name: "n".repeat(250) };
    assert.equal(eventName(subject, stamp), "18a1");
  });
});

it("a series has a count and its last time", () => {
  assert.deepEqual(seriesPatch({ count: 3, lastObservedMs: timeMs }), {
    series: { count: 3, lastObservedTime: "2026-11-21T15:04:05.067000Z" },
  });
});

it("Events are equal regardless of their notes, and differ by object, reason and action", () => {
  const key = seriesKey(listen);
  assert.equal(seriesKey({ ...listen, note: "other" }), key);
  for (const other of [
    { ...listen, reason: "Other" },
    { ...listen, action: "Other" },
    { ...listen, subject: { ...listen.subject, name: "other" } },
    { ...listen, subject: { ...listen.subject, namespace: "other" } },
  ]) {
    assert.notEqual(seriesKey(other), key);
  }
});

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { reachProblems, silenceProblems } from "../../../src/e2e/checks/answers.ts";
import { forbiddenRequests } from "../../../src/e2e/checks/permissions.ts";
import type { Question } from "../../../src/e2e/pod/conversation.ts";
import type { Backend } from "../../../src/e2e/scene.ts";

const question: Question = { protocol: "TCP", address: "fd00:96::7", port: 80, count: 4 };
const place = { namespace: "e2e", pod: "backend-0" };
const backend: Backend = { name: "backend-0", place, nodeName: "node-1", addresses: [] };
const from = "10.244.1.5";

describe("answers", () => {
  it("are right where each comes from a backend that was meant", () => {
    const answers = { answers: [{ name: "backend-0", from }], errors: [] };
    assert.deepEqual(reachProblems("a pod on node-1", question, answers, [backend]), []);
  });

  it("name errors and strangers once each", () => {
    const stranger = { name: "backend-9", from };
    const answers = { answers: [stranger, stranger], errors: ["timeout", "timeout", "EPIPE"] };
    assert.deepEqual(reachProblems("node node-1", question, answers, [backend]), [
      "from node node-1 to [fd00:96::7]:80/TCP: timeout (2 times)",
      "from node node-1 to [fd00:96::7]:80/TCP: EPIPE",
      "from node node-1 to [fd00:96::7]:80/TCP: answered by backend-9 (2 times)",
    ]);
  });

  it("are a fault where nobody may answer", () => {
    const answers = { answers: [{ name: "backend-0", from }], errors: [] };
    assert.deepEqual(silenceProblems("node node-1", question, answers), [
      "from node node-1 to [fd00:96::7]:80/TCP: answered by backend-0",
    ]);
    assert.deepEqual(silenceProblems("x", question, { answers: [], errors: ["timeout"] }), []);
  });
});

describe("requests that were forbidden", () => {
  it("are read from the daemon's metrics", () => {
    const metrics = [
      'rest_client_requests_total{code="200",method="GET",host="10.0.0.1:6443"} 12',
      'rest_client_requests_total{code="403",method="POST",host="10.0.0.1:6443"} 2',
      'rest_client_requests_total{code="403",method="GET",host="10.0.0.1:6443"} 0',
    ].join("\n");
    assert.deepEqual(forbiddenRequests(metrics), ["2 POST requests were answered with 403"]);
  });
});

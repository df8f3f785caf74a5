import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { systemClock } from "../../../src/base/clock.ts";
import { reach, reachProblems, silence } from "../../../src/e2e/checks/answers.ts";
import { forbiddenRequests } from "../../../src/e2e/checks/permissions.ts";
import { Patience } from "../../../src/e2e/patience.ts";
import type { Answers, Question } from "../../../src/e2e/pod/conversation.ts";
import { judgeDaemons } from "../../../src/e2e/scene.ts";
import { Vantage } from "../../../src/e2e/vantage.ts";

const question: Question = { protocol: "TCP", address: "fd00:96::7", port: 80, count: 4 };
const place = { namespace: "e2e", pod: "backend-0" };
const backend = { name: "backend-0", addresses: [] };
const from = "10.244.1.5";

describe("answers", () => {
  it("are correct if each comes from an expected backend", () => {
    const answers = { answers: [{ name: "backend-0", from }], errors: [] };
    assert.deepEqual(reachProblems("a pod on node-1", question, answers, [backend]), []);
  });

  it("are summarized with each error and each unexpected backend once", () => {
    const stranger = { name: "backend-9", from };
    const answers = { answers: [stranger, stranger], errors: ["timeout", "timeout", "EPIPE"] };
    assert.deepEqual(reachProblems("node node-1", question, answers, [backend]), [
      "from node node-1 to [fd00:96::7]:80/TCP: timeout (2 times)",
      "from node node-1 to [fd00:96::7]:80/TCP: EPIPE",
      "from node node-1 to [fd00:96::7]:80/TCP: answered by backend-9 (2 times)",
    ]);
  });

  it("cause a failure if no backend may answer", async () => {
    const answers = { answers: [{ name: "backend-0", from }], errors: [] };
    assert.deepEqual((await silence(vantageWith([answers]).vantage, question)).problems, [
      "from node node-1 to [fd00:96::7]:80/TCP: answered by backend-0",
    ]);
    const nobody = { answers: [], errors: ["timeout"] };
    assert.deepEqual((await silence(vantageWith([nobody]).vantage, question)).problems, []);
  });

  it("to requests in the same event-loop turn come from one command", async () => {
    const [first, second] = ["backend-0", "backend-1"].map((name) => {
      return { answers: [{ name, from }], errors: [] };
    });
    assert.ok(first !== undefined && second !== undefined);
    const { vantage, commands } = vantageWith([first, second]);
    const found = await Promise.all([
      reach(vantage, question, [backend]),
      silence(vantage, { ...question, port: 81 }),
    ]);
    assert.deepEqual(
      found.map(({ answers }) => answers[0]?.name),
      ["backend-0", "backend-1"],
    );
    assert.deepEqual(commands, [
      ["kube-ipvs-e2e", "ask", JSON.stringify([question, { ...question, port: 81 }])],
    ]);
    await vantage.ask(question);
    assert.equal(commands.length, 2);
  });
});

/** A vantage point whose commands print these answers. */
function vantageWith(answers: readonly Answers[]): {
  readonly vantage: Vantage;
  readonly commands: readonly (readonly string[])[];
} {
  const commands: (readonly string[])[] = [];
  const shell: ConstructorParameters<typeof Vantage>[1] = {
    run: async (where, command) => {
      assert.deepEqual(where, place);
      commands.push(command);
      return { exitCode: 0, out: JSON.stringify(answers), err: "" };
    },
  };
  return { vantage: new Vantage("node node-1", shell, async () => place), commands };
}

describe("a check of daemons", () => {
  it("fails if no daemon is found", async () => {
    const waiting = { clock: systemClock, signal: new AbortController().signal };
    const scene = { patience: new Patience(waiting, 0), listDaemons: async () => [] };
    const outcome = await judgeDaemons(scene, "ok", async () => []);
    assert.deepEqual(outcome, { result: "failed", detail: "no kube-ipvs pod runs" });
  });
});

describe("forbidden requests", () => {
  it("are read from the daemon's metrics", () => {
    const metrics = [
      'rest_client_requests_total{code="200",method="GET",host="10.0.0.1:6443"} 12',
      'rest_client_requests_total{code="403",method="POST",host="10.0.0.1:6443"} 2',
      'rest_client_requests_total{code="403",method="GET",host="10.0.0.1:6443"} 0',
    ].join("\n");
    assert.deepEqual(forbiddenRequests(metrics), ["2 POST requests were answered with 403"]);
  });
});

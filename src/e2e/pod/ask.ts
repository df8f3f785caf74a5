/** `kube-ipvs-e2e ask QUESTIONS`: asks backends for their names, and prints the answers as JSON. */
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { writeSync } from "node:fs";
import { connect } from "node:net";
import { createInterface } from "node:readline";
import { parseJson } from "../../base/parse-json.ts";
import { systemErrorCode } from "../../base/system-error-text.ts";
import {
  type Answer,
  type Answers,
  type Question,
  readGreeting,
  requests,
} from "./conversation.ts";

const patienceMs = 2_000;

/** Asks all questions at the same time, and makes each question's attempts one after the other. */
export async function run([questions = "[]"]: readonly string[]): Promise<undefined> {
  const all = await Promise.all((parseJson(questions) as readonly Question[]).map(askOne));
  writeSync(1, `${JSON.stringify(all)}\n`);
}

async function askOne(question: Question): Promise<Answers> {
  const answers: Answer[] = [];
  const errors: string[] = [];
  for (let attempt = 0; attempt < question.count; attempt += 1) {
    const signal = AbortSignal.timeout(patienceMs);
    try {
      const line = await (question.protocol === "TCP" ? askByTcp : askByUdp)(question, signal);
      answers.push(readGreeting(line));
    } catch (error) {
      errors.push((signal.aborted ? undefined : systemErrorCode(error)) ?? "timeout");
    }
  }
  return { answers, errors };
}

async function askByTcp({ address, port }: Question, signal: AbortSignal): Promise<string> {
  const socket = connect({ host: address, port });
  try {
    socket.write(`${requests.name}\n`);
    // readline emits the errors of the socket.
    const [line] = await once(createInterface(socket), "line", { signal });
    return String(line);
  } finally {
    socket.destroy();
  }
}

async function askByUdp({ address, port }: Question, signal: AbortSignal): Promise<string> {
  const socket = createSocket(address.includes(":") ? "udp6" : "udp4");
  try {
    // A connected socket receives ICMP errors.
    socket.connect(port, address);
    await once(socket, "connect", { signal });
    socket.send(requests.name);
    const [text] = await once(socket, "message", { signal });
    return String(text);
  } finally {
    socket.close();
  }
}

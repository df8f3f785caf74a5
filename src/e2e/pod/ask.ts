/** `kube-ipvs-e2e ask QUESTIONS`: asks backends for their names, and prints the answers as JSON. */
import { createSocket } from "node:dgram";
import { connect } from "node:net";
import { systemErrorCode } from "../../base/system-error-text.ts";
import { type Answer, type Answers, type Question, readGreeting, wishes } from "./conversation.ts";

const patienceMs = 2_000;

/** All questions at once, the attempts of each one after the other. */
export async function ask(questions: readonly Question[]): Promise<readonly Answers[]> {
  return await Promise.all(questions.map(askOne));
}

async function askOne(question: Question): Promise<Answers> {
  const answers: Answer[] = [];
  const errors: string[] = [];
  for (let attempt = 0; attempt < question.count; attempt += 1) {
    try {
      const line = await (question.protocol === "TCP" ? askByTcp : askByUdp)(question);
      answers.push(readGreeting(line));
    } catch (error) {
      errors.push(systemErrorCode(error) ?? "timeout");
    }
  }
  return { answers, errors };
}

function askByTcp({ address, port }: Question): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: address, port, timeout: patienceMs });
    let text = "";
    socket.on("connect", () => socket.write(`${wishes.name}\n`));
    socket.on("data", (bytes: Buffer) => {
      text += bytes.toString("utf8");
      if (!text.includes("\n")) return;
      socket.destroy();
      resolve(text);
    });
    socket.on("timeout", () => socket.destroy(new Error("timeout")));
    socket.on("error", reject);
    socket.on("end", () => reject(new Error("end")));
  });
}

function askByUdp({ address, port }: Question): Promise<string> {
  const socket = createSocket(address.includes(":") ? "udp6" : "udp4");
  return new Promise<string>((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error("timeout")), patienceMs);
    const settle = <T>(finish: (value: T) => void): ((value: T) => void) => {
      return (value) => {
        clearTimeout(timer);
        finish(value);
      };
    };
    const fail = settle(reject);
    // A connected socket hears of ICMP errors.
    socket.connect(port, address, () => socket.send(wishes.name));
    socket.on(
      "message",
      settle((text: Buffer) => resolve(text.toString("utf8"))),
    );
    socket.on("error", fail);
  }).finally(() => socket.close());
}

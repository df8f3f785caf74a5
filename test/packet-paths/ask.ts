/** A client: one new connection or one datagram flow, and its outcome. */
import { createSocket } from "node:dgram";
import { connect } from "node:net";
import { type Outcome, type Probe, parseAnswer, requestText } from "./probe.ts";
import { askSctp } from "./sctp.ts";

/**
 * Datagrams are retransmitted, because the first datagram that is too large for the path is lost. Only then does its
 * sender learn the MTU.
 */
const resendMs = 300;

type Finish = (outcome: Outcome) => void;

export function ask(probe: Probe): Promise<Outcome> {
  if (probe.protocol === "SCTP") return askSctp(probe);
  return until(probe.timeoutMs, (finish) => {
    return probe.protocol === "TCP" ? askTcp(probe, finish) : askUdp(probe, finish);
  });
}

/** Returns a function that closes the connection. */
function askTcp(probe: Probe, finish: Finish): () => void {
  const { address, port, source = address.includes(":") ? "::" : "0.0.0.0" } = probe;
  // A bound socket has its own port. Otherwise two connections to different virtual servers could have the same port,
  // and if both reached the same real server, IPVS would send all answers to the later one.
  const socket = connect({ host: address, port, localAddress: source });
  let received = "";
  socket.on("error", (error) => finish(outcomeOf(error)));
  socket.on("data", (chunk: Buffer) => {
    received += chunk.toString("latin1");
    finishWith(received, finish);
  });
  socket.on("close", () => finish({ kind: "failure", code: "closed" }));
  socket.write(requestText(probe));
  // Resets the connection, because IPVS forgets a reset connection after 10 s instead of 120.
  return () => socket.resetAndDestroy();
}

/** Returns a function that ends the flow. */
function askUdp(probe: Probe, finish: Finish): () => void {
  const { address, port, source } = probe;
  const socket = createSocket(address.includes(":") ? "udp6" : "udp4");
  const request = requestText(probe);
  let timer: NodeJS.Timeout | undefined;
  const onError = (error: Error): void => {
    if (codeOf(error) !== "EMSGSIZE") finish(outcomeOf(error));
  };
  const send = (): void => {
    socket.send(request, (error) => {
      if (error !== null) onError(error);
    });
  };
  socket.on("error", onError);
  socket.on("message", (answer) => finishWith(answer.toString("latin1"), finish));
  socket.on("connect", () => {
    send();
    timer = setInterval(send, resendMs);
  });
  const from = source === undefined ? {} : { address: source };
  socket.bind({ port: 0, ...from }, () => socket.connect(port, address));
  return () => {
    clearInterval(timer);
    socket.close();
  };
}

function finishWith(text: string, finish: Finish): void {
  const answer = parseAnswer(text);
  if (answer !== undefined) finish({ kind: "answer", answer });
}

/** Resolves with the outcome of `begin`, or with silence after the timeout, and closes the connection. */
function until(timeoutMs: number, begin: (finish: Finish) => () => void): Promise<Outcome> {
  const { promise, resolve } = Promise.withResolvers<Outcome>();
  const timer = setTimeout(() => resolve({ kind: "silence" }), timeoutMs);
  const end = begin(resolve);
  return promise.finally(() => {
    clearTimeout(timer);
    end();
  });
}

function codeOf(error: Error): string {
  return (error as NodeJS.ErrnoException).code ?? error.message;
}

function outcomeOf(error: Error): Outcome {
  const code = codeOf(error);
  return code === "ECONNREFUSED" ? { kind: "refused" } : { kind: "failure", code };
}

/**
 * Prints the system calls that the program makes from start to end, one per line, for deploy/seccomp/recorded-calls.txt
 * (`make seccomp`). Prints the started programs on standard error. Runs in the lab.
 */
import { shell } from "../support/netns/network-namespace.ts";
import { nodeSetUp, recordLife } from "./life.ts";
import { namesOfCalls, startedPrograms } from "./system-calls.ts";

shell(nodeSetUp);
const text = await recordLife();
const heading =
  "# System calls of the program and of iptables in its life, seen by strace on amd64. `make seccomp` writes this list.";
console.log([heading, ...namesOfCalls(text)].join("\n"));
console.error(`Programs started: ${startedPrograms(text).join(" ")}`);

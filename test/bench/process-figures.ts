/** Reads the CPU time and memory of a process from /proc. */
import { readdirSync, readFileSync } from "node:fs";
import type { ProcessFigures } from "./agent-requests.ts";

/**
 * A process with all its descendants. The CPU time of an exited process is included in that of the process that waited
 * for it.
 */
export function figuresOf(pid: number): ProcessFigures {
  const family = descendants(pid);
  let [cpuTicks, residentKb, peakKb, anonymousKb] = [0, 0, 0, 0];
  for (const member of family) {
    const files = filesOf(member);
    if (files === undefined && member === pid) throw new Error(`Process ${pid} has exited`);
    if (files === undefined) continue;
    const { fields, status } = files;
    for (const index of [11, 12, 13, 14]) cpuTicks += Number(fields[index]);
    residentKb += Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1] ?? 0);
    peakKb += Number(/^VmHWM:\s+(\d+)/m.exec(status)?.[1] ?? 0);
    anonymousKb += Number(/^RssAnon:\s+(\d+)/m.exec(status)?.[1] ?? 0);
  }
  const own = statFields(pid);
  const ownCpuMs = (Number(own[11]) + Number(own[12])) * 10;
  const cpuMs = cpuTicks * 10;
  return { cpuMs, ownCpuMs, residentKb, peakKb, anonymousKb, processCount: family.length };
}

interface ProcessFiles {
  readonly fields: readonly string[];
  readonly status: string;
}

/** Undefined for an exited process, whose CPU time belongs to the process that waited for it. */
function filesOf(pid: number): ProcessFiles | undefined {
  try {
    return { fields: statFields(pid), status: readFileSync(`/proc/${pid}/status`, "utf8") };
  } catch {
    return undefined;
  }
}

function descendants(pid: number): readonly number[] {
  const parents = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name): [number, number][] => {
      try {
        return [[Number(name), Number(statFields(Number(name))[1])]];
      } catch {
        return []; // The process has exited in the meantime.
      }
    });
  const family = [pid];
  for (const one of family) {
    family.push(...parents.filter(([, parent]) => parent === one).map(([child]) => child));
  }
  return family;
}

/** Fields of /proc/PID/stat after the name, which may contain spaces, starting with the state. */
function statFields(pid: number): readonly string[] {
  const text = readFileSync(`/proc/${pid}/stat`, "utf8");
  return text.slice(text.lastIndexOf(")") + 2).split(" ");
}

/** CPU time of all processes that this one started, including the lab kernel. */
export function labCpuMs(): number {
  const { cpuMs, ownCpuMs } = figuresOf(process.pid);
  return cpuMs - ownCpuMs;
}

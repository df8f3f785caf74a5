/** Runs the containers of a manifest's pod with an OCI runtime (crun), from the image's assembled root. */
import { execFile, execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { Program } from "../program.ts";
import type { ContainerTemplate, PodTemplate, Volume } from "./pod.ts";
import { type PodFacts, runtimeSpec, type VolumePaths } from "./runtime-spec.ts";

const imagePath: string = join(import.meta.dirname, "../../../build/image");
const runFile = promisify(execFile);
const runtimeArguments = ["--cgroup-manager=disabled", `--root=${join(tmpdir(), "crun")}`];

export interface NodeOptions {
  /** The files in the pod's ConfigMap. */
  readonly config: Readonly<Record<string, string>>;
  /** Contents of the service account token file. */
  readonly token: string;
  readonly nodeName: string;
  /** The folder in build/image with the image's files. Defaults to `root`. */
  readonly root?: string;
}

/** A node for one pod: its volumes and its containers. */
export class NodeContainers {
  readonly #folder = mkdtempSync(join(tmpdir(), "kube-ipvs-pod-"));
  readonly #pod: PodFacts;
  readonly #running = new Map<string, Program>();
  #count = 0;

  constructor({ volumes }: PodTemplate, { config, token, nodeName, root = "root" }: NodeOptions) {
    const serviceAccountPath = this.#writeFolder("service-account", { token, "ca.crt": "" });
    const volumePaths: VolumePaths = Object.fromEntries(
      volumes.map((volume) => [volume.name, this.#volumePath(volume, config)]),
    );
    this.#pod = { rootPath: join(imagePath, root), nodeName, volumePaths, serviceAccountPath };
  }

  /** Path of a pod volume on the node. */
  volumePath(name: string): string {
    const path = this.#pod.volumePaths[name];
    if (path === undefined) throw new Error(`No volume ${name}`);
    return path;
  }

  /** Starts a container and returns its process. */
  start(container: ContainerTemplate): Program {
    const id = `${container.name}-${process.pid}-${this.#count++}`;
    const bundle = this.#writeFolder(id, {
      "config.json": JSON.stringify(runtimeSpec(container, this.#pod)),
    });
    const program = new Program([...runtimeArguments, "run", "--bundle", bundle, id], [], {
      program: "crun",
    });
    this.#running.set(id, program);
    return program;
  }

  /** A container's process ID on the node. */
  pidOf(program: Program): number {
    const state = execFileSync("crun", [...runtimeArguments, "state", this.#idOf(program)]);
    const { pid } = JSON.parse(state.toString()) as { pid: number };
    return pid;
  }

  /**
   * Runs a command in a container, as `kubectl exec` does, and returns its output. Rejects if the command fails. Does
   * not block, because the command may query the API server in this process.
   */
  async exec(program: Program, command: readonly string[]): Promise<string> {
    const argv = [...runtimeArguments, "exec", this.#idOf(program), ...command];
    const { stdout } = await runFile("crun", argv);
    return stdout;
  }

  /** Sends a signal to the container's process 1, as a runtime does. */
  signal(program: Program, name: "TERM" | "KILL"): void {
    execFileSync("crun", [...runtimeArguments, "kill", this.#idOf(program), name]);
  }

  /** Stops the containers and removes the volumes. */
  async destroy(): Promise<void> {
    for (const [id, program] of this.#running) {
      execFileSync("crun", [...runtimeArguments, "delete", "--force", id]);
      await program.ends();
    }
    rmSync(this.#folder, { recursive: true });
  }

  #idOf(program: Program): string {
    for (const [id, running] of this.#running) if (running === program) return id;
    throw new Error("Not a container on this node");
  }

  #volumePath(volume: Volume, config: NodeOptions["config"]): string {
    if (volume.configMap !== undefined) return this.#writeFolder(volume.name, config);
    if (volume.hostPath === undefined) return this.#writeFolder(volume.name, {});
    const { path, type } = volume.hostPath;
    if (type === "DirectoryOrCreate") mkdirSync(path, { recursive: true });
    if (type === "FileOrCreate") {
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, "", { flag: "a" });
    }
    return path;
  }

  #writeFolder(name: string, files: Readonly<Record<string, string>>): string {
    const folder = join(this.#folder, name);
    mkdirSync(folder);
    for (const [file, text] of Object.entries(files)) writeFileSync(join(folder, file), text);
    return folder;
  }
}
